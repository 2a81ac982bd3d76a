// SPDX-License-Identifier: Apache-2.0
//
// The task graphs of all collectives but the all-reduce, one file each in collectives/. topology.h has the
// all-reduce. docs/algorithms.md has the costs as formulas.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/casync/graph/partition.h"
#include "core/casync/graph/task_graph.h"
#include "core/casync/graph/topology.h"

namespace hipress {

/// The root's values to all ranks, along a binomial tree rooted at firstRank: ⌊log2 N⌋ hops, and one back.
TaskGraph buildBroadcast(const TopologyContext& context);

// The next three collectives move blocks, one for each rank. The blocks are the partitions.

/// Each rank's block to all other ranks; partition p is the block of rank p.
TaskGraph buildAllgather(const TopologyContext& context);
/// A separate block from each rank to each other rank. Ranks r and s exchange partition (r + s) mod N, so
/// both use the same number.
TaskGraph buildAlltoall(const TopologyContext& context);
/// The sum of all ranks' values. Partition p of the sum goes to rank p only.
TaskGraph buildReducescatter(const TopologyContext& context);

/// The rank with which `rank` exchanges partition `partition` of an alltoall.
constexpr int alltoallPeer(int rank, size_t partition, int worldSize) {
  return (static_cast<int>(partition) + worldSize - rank) % worldSize;
}

/// Divides `rows` rows of `rowElements` elements among the ranks, as evenly as possible. Lower ranks get one
/// row more, as with Horovod. In elements.
std::vector<uint64_t> divideRows(uint64_t rows, uint64_t rowElements, int worldSize);

/// Places blocks of these sizes one after the other.
std::vector<Partition> behindEachOther(const std::vector<uint64_t>& counts);

}  // namespace hipress
