// SPDX-License-Identifier: Apache-2.0
//
// A topology turns (rank, world, partitions) into this rank's task graph. Each is one file in topologies/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/casync/task_graph.h"

namespace hipress {

struct TopologyContext {
  int rank = 0;
  int worldSize = 1;
  uint16_t partitions = 1;
  /// Ps: aggregator of partition 0, spread over the ranks by tensor. Broadcast: the root.
  int firstRank = 0;
};

/// Parameter server with co-located aggregators: rank (firstRank + p) mod N aggregates partition p.
/// Per rank and partition: 2(N−1) messages at the aggregator, 2 at each other rank.
TaskGraph buildPs(const TopologyContext& context);

/// One rank's values to all others, along a binomial tree rooted at firstRank: ⌈log2 N⌉ hops.
TaskGraph buildBroadcast(const TopologyContext& context);

/// Names that users may give for gradients: {"ps"}.
const std::vector<std::string>& topologyNames();

/// Builds the graph of a topology in topologyNames(). Throws InvalidArgument that lists them for any other
/// name.
TaskGraph buildTopology(std::string_view name, const TopologyContext& context);
void checkTopologyName(std::string_view name);

}  // namespace hipress
