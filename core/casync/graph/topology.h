// SPDX-License-Identifier: Apache-2.0
//
// A topology turns (rank, world, partitions) into this rank's task graph of an all-reduce. Each is one file
// in topologies/. Steps, bytes and computations of each as formulas: docs/algorithms.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/casync/graph/task_graph.h"

namespace hipress {

struct TopologyContext {
  int rank = 0;
  int worldSize = 1;
  uint16_t partitions = 1;
  /// Whose share partition 0 is, spread over the ranks by tensor. Broadcast: the root.
  int firstRank = 0;
  /// Number of each rank's host, from 0; empty: all ranks are on one.
  std::vector<int> hosts;
};

/// Names that users may give for gradients: ps, ring, butterfly, allgather, hierarchical. The last may name
/// the topology between hosts: "hierarchical(ring)"; it is ps otherwise.
const std::vector<std::string>& topologyNames();

/// Builds the graph of a topology. Throws InvalidArgument that lists the names for one that does not exist.
TaskGraph buildTopology(std::string_view name, const TopologyContext& context);
void checkTopologyName(std::string_view name);

/// Whether values cross the network, where compressing them may pay.
bool crossesNetwork(std::string_view topology, const std::vector<int>& hosts, int worldSize);

}  // namespace hipress
