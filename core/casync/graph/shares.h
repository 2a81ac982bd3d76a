// SPDX-License-Identifier: Apache-2.0
//
// Into how many partitions a tensor is cut, and whose share each is.
#pragma once

#include <cstddef>
#include <string_view>

namespace hipress {

/// Whose share partition 0 of a tensor is: names spread small tensors, of one partition, over the ranks.
int firstAggregator(std::string_view name, int worldSize);

/// For a tensor of `bytes` that does not say it itself: every rank gets the same share of a large one.
size_t defaultPartitions(size_t bytes, size_t partitionBytes, int worldSize);

}  // namespace hipress
