// SPDX-License-Identifier: Apache-2.0
//
// The codecs that this library has for GPUs. The build makes the list.
#pragma once

#include <vector>

#include "core/ops/cuda/cuda_codec.h"

namespace hipress::cuda {

std::vector<const CudaCodec*> builtinCodecs();

}  // namespace hipress::cuda
