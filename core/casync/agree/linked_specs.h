// SPDX-License-Identifier: Apache-2.0
//
// The two tensors that are sent for one that is sent as linked tensors.
#pragma once

#include <utility>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// On the tensor's way, with its priority, and uncompressed: its left and its right factor, which are sums of
/// float32; or its statistics, which are float32, and its levels, which are sums of int8. Their names are the
/// tensor's with more words behind.
std::pair<TensorSpec, TensorSpec> linkedSpecs(const Tensor& tensor);

}  // namespace hipress
