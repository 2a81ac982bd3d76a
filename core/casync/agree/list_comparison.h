// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/casync/graph/tensor.h"

namespace hipress {

/// A list of tensors as text, one per line: what ranks exchange to see that they agree.
std::string listAsText(const std::vector<TensorSpec>& specs);

/// One sentence on the first tensor in which two such lists differ: what rank 0 has and what rank `other`
/// has.
std::string firstDifference(const std::string& ofRank0, const std::string& ofOther, int other);

}  // namespace hipress
