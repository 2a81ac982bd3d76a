// SPDX-License-Identifier: Apache-2.0
//
// The two tensors that are sent for one that is sent as factors.
#pragma once

#include <string>
#include <utility>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// What their names have behind the tensor's.
inline const std::string kLeftFactor = " (left factor)";
inline const std::string kRightFactor = " (right factor)";

/// The left one and the right one: sums of float32, uncompressed, on the tensor's way and with its priority.
std::pair<TensorSpec, TensorSpec> factorSpecs(const Tensor& tensor);

}  // namespace hipress
