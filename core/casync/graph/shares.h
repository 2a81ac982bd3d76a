// SPDX-License-Identifier: Apache-2.0
//
// Decides into how many partitions a tensor is cut, and which rank owns each partition.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hipress {

/// A number for a name, the same in every process.
uint32_t numberOfName(std::string_view name);

/// The owner of partition 0, by the tensor's name: so small tensors, of one partition, spread over the ranks.
int firstAggregator(std::string_view name, int worldSize);

/// For a tensor of `bytes` without a number of its own. All ranks get the same share of a large tensor.
size_t defaultPartitions(size_t bytes, size_t partitionBytes, int worldSize);

}  // namespace hipress
