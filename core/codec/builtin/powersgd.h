// SPDX-License-Identifier: Apache-2.0
//
// `powersgd`: a matrix travels as the product of two low-rank factors, which are summed over all ranks one
// after the other (Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
// Optimization", NeurIPS 2019). It has options and states as other codecs, and no encoding of its own: both
// factors travel uncompressed.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describePowerSgd();
CodecPointer createPowerSgd(const CodecOptions& options);

}  // namespace hipress
