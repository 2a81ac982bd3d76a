// SPDX-License-Identifier: Apache-2.0
//
// The average of some tensors over a process group as a static program of this rank: runs, in which the rank
// computes, and between two runs a hop, in which ranks exchange messages by one of the group's collectives.
// It comes from the task graphs of the topology (casync/graph): level by level, each task runs as early as
// the messages before it allow, and all ranks come to the same hops in the same order.
//
// All messages and the sums that outlive a run lie in one block of memory, the arena, which the caller owns
// and uses again in the next step. Messages and sums that no moment needs together share a place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/casync/graph/task_graph.h"
#include "core/slots/program/slot.h"

namespace hipress {

/// A message's bytes are a multiple of this, so that the elements of the next one are aligned.
inline constexpr size_t kSlotAlignment = 16;

/// The ranks of a group, and how they average.
struct SlotRanks {
  std::string topology = "auto";
  int rank = 0;
  int world = 1;
  std::vector<int> hosts;  ///< As of TopologyContext.
};

/// What this rank exchanges between two runs, in bytes by the other rank.
struct SlotHop {
  size_t sendAt = 0;  ///< Place in the arena; there lie the blocks for the ranks, in their order.
  size_t receiveAt = 0;
  std::vector<size_t> sent;
  std::vector<size_t> received;
  std::vector<size_t> counted;  ///< Of `sent`, those of slots that are counted.
};

/// A task of a slot's graph.
struct SlotTask {
  size_t slot = 0;
  TaskIndex task = 0;
};

/// Bytes of the arena that are sent from a second place, too.
struct SlotCopy {
  size_t from = 0;
  size_t to = 0;
  size_t bytes = 0;
};

/// Immutable.
class SlotProgram {
 public:
  /// Throws InvalidArgument; Unsupported if a codec does not fit the topology.
  SlotProgram(std::vector<Slot> slots, SlotRanks ranks);

  const std::vector<Slot>& slots() const { return slots_; }
  const SlotRanks& ranks() const { return ranks_; }
  /// Whether in each hop all ranks have bytes for all; otherwise a rank exchanges with few.
  bool isAllToAll() const { return isAllToAll_; }
  /// Hop h comes after run h; behind the last hop is one more run.
  const std::vector<SlotHop>& hops() const { return hops_; }
  size_t arenaBytes() const { return arenaBytes_; }

  /// The encodes, merges and decodes of a run, slot by slot. A task comes behind the tasks that it needs.
  std::span<const SlotTask> work(size_t run) const { return work_[run]; }
  /// The messages that have come before a run: the receives.
  std::span<const SlotTask> arrivals(size_t run) const { return arrivals_[run]; }
  /// At the end of a run.
  std::span<const SlotCopy> copies(size_t run) const { return copies_[run]; }

  const TaskGraph& graph(size_t slot) const { return *graphs_[slot]; }
  /// A message's place in the arena: its header, and behind it room for the payload.
  size_t messageAt(size_t slot, MessageIndex message) const { return messagesAt_[slot][message]; }
  /// Whether the message has the values as they are.
  bool isRaw(size_t slot, MessageIndex message) const;
  /// Room for a message's payload, or the bytes of a raw one.
  size_t payloadBytes(size_t slot, MessageIndex message) const;
  /// The place of a sum that a later run or a merge reads, in float32; empty: only encodes of its run read
  /// it.
  std::optional<size_t> sumAt(size_t slot, SumIndex sum) const;

  /// Also that each tensor has the type of its slots. Throws InvalidArgument.
  void checkTensors(std::span<const SlotValues> tensors) const;
  void checkArena(size_t bytes) const;

  /// The program, for people: one line for each run and hop.
  std::string text() const;

 private:
  std::vector<Slot> slots_;
  SlotRanks ranks_;
  bool isAllToAll_ = true;
  std::vector<std::shared_ptr<const TaskGraph>> graphs_;  ///< By slot.
  std::vector<SlotHop> hops_;
  std::vector<std::vector<SlotTask>> work_;
  std::vector<std::vector<SlotTask>> arrivals_;
  std::vector<std::vector<SlotCopy>> copies_;
  std::vector<std::vector<size_t>> messagesAt_;
  std::vector<std::vector<std::optional<size_t>>> sumsAt_;
  size_t arenaBytes_ = 0;
  size_t tensors_ = 0;
};

}  // namespace hipress
