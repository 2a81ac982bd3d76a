// SPDX-License-Identifier: Apache-2.0
//
// The two tensors that travel in place of a tensor with PowerSGD factors.
#pragma once

#include <string>
#include <utility>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// The suffixes of their names.
inline const std::string kLeftFactor = " (left factor)";
inline const std::string kRightFactor = " (right factor)";

/// The left and the right factor: sums of float32, uncompressed, with the tensor's topology and priority.
std::pair<TensorSpec, TensorSpec> factorSpecs(const Tensor& tensor);

}  // namespace hipress
