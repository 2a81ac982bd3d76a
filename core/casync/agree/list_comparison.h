// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// A list of tensors as text, one tensor per line. Ranks exchange the text to compare their lists.
std::string listAsText(const std::vector<TensorSpec>& specs);

/// One sentence about the first tensor in which two lists differ: the tensor of rank `first` and that of rank
/// `other`.
std::string firstDifference(const std::string& ofFirst, const std::string& ofOther, int first, int other);

}  // namespace hipress
