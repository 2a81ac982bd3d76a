// SPDX-License-Identifier: Apache-2.0
//
// `fp16`: IEEE half precision, 2 bytes a value, rounded to nearest even: a cast, with a cast's meaning.
// Values too large for half (65520 and above) become infinity, so that a loss scaler sees them. No options,
// no error feedback.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describeFp16();
CodecPointer createFp16(const CodecOptions& options);

}  // namespace hipress
