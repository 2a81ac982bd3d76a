// SPDX-License-Identifier: Apache-2.0
//
// The task graphs of a tensor, as the topologies build them (core/casync/graph/topology.h), reduced to the
// parts that take time, and with the receiver of every message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/casync/graph/task_graph.h"
#include "core/casync/graph/topology.h"

namespace hipress {

struct SimulatedTask {
  Primitive primitive = Primitive::kEncode;
  bool plain = false;         // encode, decode, send: raw elements even if the tensor is compressed
  bool own = false;           // encode, send: the rank's own values, for another host
  bool lent = false;          // encode, send: if neighbours read, the message only refers to the elements
  bool encodesSum = false;    // goes before all other tasks
  bool partial = false;       // merge: of raw elements only
  bool ownShare = false;      // of a partition that ends at rank 0; see representativeGraph()
  int peer = -1;              // send, recv
  TaskIndex arrivesAs = 0;    // send: the receive at the peer
  uint16_t encoded = 0;       // merge: operands that are messages and may be encoded
  uint16_t elements = 0;      // merge: operands that are elements on this rank
  uint16_t lentElements = 0;  // merge: operands that are elements of a neighbour
  uint32_t dependencies = 0;
  uint32_t firstSuccessor = 0;  // in RankGraph::successors, up to the next task's
};

struct RankGraph {
  std::vector<SimulatedTask> tasks;  // and one more, which ends the successors of the last one
  std::vector<TaskIndex> successors;
  std::vector<TaskIndex> roots;  // receives first, in the engine's order

  size_t size() const { return tasks.size() - 1; }
};
using RankGraphPointer = std::shared_ptr<const RankGraph>;

/// The graphs of every rank. `mergesDecoded`: an aggregator encodes its own contribution, too.
std::vector<RankGraphPointer> graphsOfAll(const std::string& topology, size_t partitions, int firstRank,
                                          const std::vector<int>& hosts, bool mergesDecoded);

/// Ranks in a grid of hosts and places on the hosts. A turn moves all ranks by the same number of hosts and
/// places. It does not change which ranks are neighbours.
class RankGrid {
 public:
  /// Throws Unsupported if hosts have different numbers of ranks.
  explicit RankGrid(const std::vector<int>& hosts);

  size_t ranks() const { return ranks_.size(); }
  size_t perHost() const { return perHost_; }
  /// The owner of partition `share` of a tensor whose partition 0 rank 0 owns.
  int owner(bool hierarchical, size_t share) const;
  /// The place of `rank` after the turn that brings `from` to rank 0's place.
  int turned(int rank, int from) const;

 private:
  int at(size_t host, size_t place) const { return ranks_[host * perHost_ + place]; }

  size_t hosts_ = 0;
  size_t perHost_ = 0;
  std::vector<int> ranks_;        // host by host
  std::vector<size_t> position_;  // by rank: index in ranks_
};

/// Rank 0's graph of as many partitions as ranks, one for each owner, or of one partition without owners. As
/// seen from another rank, rank 0 receives the messages that it sends. A message from `peer` about the share
/// of rank r arrives when rank 0 has sent its own message about the share of a rank that is as far from rank
/// 0 as r is from `peer`. Throws Unsupported if there is no such message.
RankGraphPointer representativeGraph(const std::string& topology, const std::vector<int>& hosts,
                                     const RankGrid& grid, bool mergesDecoded);

/// Whether the topology has shares, each of which ends at one rank.
bool hasShares(const std::string& topology);
bool isHierarchical(const std::string& topology);

}  // namespace hipress
