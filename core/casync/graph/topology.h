// SPDX-License-Identifier: Apache-2.0
//
// A topology turns (rank, world, partitions) into this rank's task graph of an all-reduce. Each topology is a
// file in topologies/. docs/algorithms.md has the steps, bytes and computations as formulas.
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
  /// The owner of partition 0, which differs from tensor to tensor. Broadcast: the root.
  int firstRank = 0;
  /// The host number of each rank, from 0; empty: all ranks are on one host.
  std::vector<int> hosts;
  /// An aggregator encodes its own contribution, too (codec/merged_decoded.h).
  bool mergesDecoded = false;
};

/// The topologies' names: ps, ring, butterfly, allgather, hierarchical. The last one may name the topology
/// between hosts, as in "hierarchical(ring)". Between hosts ps is the default. Users may also give "auto",
/// the default: allgather between two ranks, and ps between more.
const std::vector<std::string>& topologyNames();

/// The topology that a name stands for among so many ranks: the name itself, unless it is "auto".
std::string_view resolvedTopology(std::string_view name, int worldSize);

/// Builds the graph of a topology. Throws InvalidArgument, with all names, for an unknown name.
TaskGraph buildTopology(std::string_view name, const TopologyContext& context);
void checkTopologyName(std::string_view name);

/// The ranks that encode values of a partition, in their order.
struct Encoders {
  std::vector<int> workers;  ///< Of gradients or partial sums.
  int aggregator = -1;       ///< Of the result; -1: no rank encodes it.
};

/// Of partition 0. `context`: of any rank.
Encoders encodersOf(std::string_view topology, TopologyContext context);

/// Whether no message has a sum of some ranks. Every rank may then send to every other one at the same time;
/// otherwise a rank sends to few at a time.
bool isDirect(std::string_view topology);

/// Whether values cross the network, where compression may pay.
bool crossesNetwork(std::string_view topology, const std::vector<int>& hosts, int worldSize);

}  // namespace hipress
