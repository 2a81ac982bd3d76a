// SPDX-License-Identifier: Apache-2.0
//
// Collectives beside the all-reduce, as task graphs. Each is one file in collectives/; how the all-reduce is
// made, topology.h says. What they cost as formulas: docs/algorithms.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/casync/graph/partition.h"
#include "core/casync/graph/task_graph.h"
#include "core/casync/graph/topology.h"

namespace hipress {

/// One rank's values to all others, along a binomial tree rooted at firstRank: ⌊log2 N⌋ hops, and one back.
TaskGraph buildBroadcast(const TopologyContext& context);

// The other three move blocks, one for each rank, which are the partitions.

/// Every rank's block to all others; partition p is rank p's.
TaskGraph buildAllgather(const TopologyContext& context);
/// A block of its own from every rank to every other. Partition (r + s) mod N is what ranks r and s exchange:
/// its number is the same for both.
TaskGraph buildAlltoall(const TopologyContext& context);
/// The sum of all ranks' values, of which partition p ends at rank p and nowhere else.
TaskGraph buildReducescatter(const TopologyContext& context);

/// The rank with which `rank` exchanges partition `partition` of an alltoall.
constexpr int alltoallPeer(int rank, size_t partition, int worldSize) {
  return (static_cast<int>(partition) + worldSize - rank) % worldSize;
}

/// How `rows` rows of `rowElements` are divided among the ranks: as evenly as rows can be, the lower ranks
/// with one more, as Horovod does it. In elements.
std::vector<uint64_t> divideRows(uint64_t rows, uint64_t rowElements, int worldSize);

/// Blocks of these sizes behind each other.
std::vector<Partition> behindEachOther(const std::vector<uint64_t>& counts);

}  // namespace hipress
