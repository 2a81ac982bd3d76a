// SPDX-License-Identifier: Apache-2.0
//
// `powersgd`: a matrix travels as the product of two low-rank factors, and all ranks sum one factor after the
// other (Vogels et al., "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
// NeurIPS 2019). The codec has options and states like other codecs, but no encoding: both factors travel
// uncompressed.
#pragma once

#include "core/codec/registry.h"
#include "core/codec/text/options.h"

namespace hipress {

CodecDescription describePowerSgd();
CodecPointer createPowerSgd(const CodecOptions& options);

}  // namespace hipress
