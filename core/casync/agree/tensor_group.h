// SPDX-License-Identifier: Apache-2.0
//
// Groups: tensors that travel as one, with one encode and one message per link for many small gradients.
#pragma once

#include <string>
#include <vector>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// The tensors of each group, as indices of `specs`. Groups and members are in the order of `specs`.
std::vector<std::vector<size_t>> groupsOf(const std::vector<TensorSpec>& specs);

/// The tensor that travels for these members. Its name lists the members. Throws InvalidArgument and
/// Unsupported with the names of tensors that cannot travel together.
TensorSpec groupSpec(const std::vector<TensorSpec>& specs, const std::vector<size_t>& members);

/// "'a', 'b' and 3 more"
std::string listedNames(const std::vector<std::string>& names);

}  // namespace hipress
