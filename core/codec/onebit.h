// SPDX-License-Identifier: Apache-2.0
//
// `onebit`: 1-bit SGD (Seide et al., 2014). One sign bit per value, and the mean of the values of each sign;
// what the means miss stays in the residual. Payload: docs/wire-format.md. Tensors of up to two elements do
// not shrink: maxEncodedBytes(n) >= 4·n tells the engine to send those raw.
//
// Sums are taken in double, in 16 interleaved lanes added up in a fixed order: the same bits at every
// instruction-set level, finite for any finite input, exact enough for denormals.
#pragma once

#include "core/codec/options.h"
#include "core/codec/registry.h"

namespace hipress {

CodecDescription describeOnebit();
CodecPointer createOnebit(const CodecOptions& options);

}  // namespace hipress
