// SPDX-License-Identifier: Apache-2.0
//
// Tensors that are sent as one tensor: one encoding and one message per link for many small gradients.
#pragma once

#include <string>
#include <vector>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// The tensors of each group, as indices of `specs`, in the order of their first ones.
std::vector<std::vector<size_t>> groupsOf(const std::vector<TensorSpec>& specs);

/// The tensor that is sent for these members. Its name lists them. Throws InvalidArgument and Unsupported,
/// naming tensors that cannot be sent together.
TensorSpec groupSpec(const std::vector<TensorSpec>& specs, const std::vector<size_t>& members);

/// "'a', 'b' and 3 more"
std::string listedNames(const std::vector<std::string>& names);

}  // namespace hipress
