// SPDX-License-Identifier: Apache-2.0
//
// The task graphs of a tensor as the topologies build them (core/casync/graph/topology.h), reduced to what
// takes time, and with every message's receiver.
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
  bool plain = false;         // encode, decode, send: elements as they are, also if the tensor is compressed
  bool lent = false;          // encode, send: where neighbours read, it only says where the elements are
  bool encodesSum = false;    // goes before everything else
  bool partial = false;       // merge: of plain elements only
  bool ownShare = false;      // of a partition that ends at rank 0; see representativeGraph()
  int peer = -1;              // send, recv
  TaskIndex arrivesAs = 0;    // send: the receive at the peer
  uint16_t encoded = 0;       // merge: how many operands are messages that may be encoded,
  uint16_t elements = 0;      // and how many are elements here,
  uint16_t lentElements = 0;  // or at a neighbour
  uint32_t dependencies = 0;
  uint32_t firstSuccessor = 0;  // in RankGraph::successors, up to the next task's
};

struct RankGraph {
  std::vector<SimulatedTask> tasks;  // and one more, which ends the last one's successors
  std::vector<TaskIndex> successors;
  std::vector<TaskIndex> roots;  // receives first, as the engine starts them

  size_t size() const { return tasks.size() - 1; }
};
using RankGraphPointer = std::shared_ptr<const RankGraph>;

/// Of every rank.
std::vector<RankGraphPointer> graphsOfAll(const std::string& topology, size_t partitions, int firstRank,
                                          const std::vector<int>& hosts);

/// Ranks in a grid of hosts and places on them: turning it, all ranks by as many hosts and places, changes
/// nothing about who is whose neighbour.
class RankGrid {
 public:
  /// Throws Unsupported if hosts differ in how many ranks they have.
  explicit RankGrid(const std::vector<int>& hosts);

  size_t ranks() const { return ranks_.size(); }
  size_t perHost() const { return perHost_; }
  /// Whose share partition `share` of a tensor is, if partition 0 is rank 0's.
  int owner(bool hierarchical, size_t share) const;
  /// Where `rank` is after the turn that brings `from` to where rank 0 is.
  int turned(int rank, int from) const;

 private:
  int at(size_t host, size_t place) const { return ranks_[host * perHost_ + place]; }

  size_t hosts_ = 0;
  size_t perHost_ = 0;
  std::vector<int> ranks_;        // host by host
  std::vector<size_t> position_;  // in ranks_, by rank
};

/// Rank 0's graph of as many partitions as ranks, of which one ends at each (of one partition, where none
/// ends anywhere). What it receives is what it sends, seen from another rank: a message from `peer` about
/// some rank's share arrives when rank 0 has sent that about the share of the rank as far away, to whom it is
/// what `peer` is to it. Throws Unsupported if there is no such message.
RankGraphPointer representativeGraph(const std::string& topology, const std::vector<int>& hosts,
                                     const RankGrid& grid);

/// Whether the topology has shares that end at one rank.
bool hasShares(const std::string& topology);
bool isHierarchical(const std::string& topology);

}  // namespace hipress
