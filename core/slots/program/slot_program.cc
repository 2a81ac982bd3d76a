// SPDX-License-Identifier: Apache-2.0
#include "core/slots/program/slot_program.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/casync/graph/topologies/exchange.h"
#include "core/casync/graph/topology.h"
#include "core/codec/merged_decoded.h"
#include "core/codec/wire/wire_header.h"
#include "core/slots/program/slot_layout.h"

namespace hipress {
namespace {

void check(const Slot& slot) {
  if (slot.owner < 0 || slot.codec == nullptr) throw invalidArgument("a slot needs an owner, and a codec");
  const size_t least =
      slot.raw ? slot.count * elementSize(slot.dtype) : slot.codec->maxEncodedBytes(slot.count);
  if (slot.payloadBytes < least || (slot.raw && slot.payloadBytes != least))
    throw invalidArgument("the slot of '" + slot.name + "' has another size than its payload needs");
}

/// The tasks of one slot.
TaskGraph graphOf(const Slot& slot, const SlotRanks& ranks) {
  TopologyContext context;
  context.rank = ranks.rank;
  context.worldSize = ranks.world;
  context.firstRank = slot.owner;
  context.hosts = ranks.hosts;
  context.mergesDecoded = !slot.raw && mergesDecoded(*slot.codec);
  if (slot.aggregateCodec != nullptr) return buildTopology(ranks.topology, context);
  TaskGraph graph;
  addReduce(graph, flatExchange(context, 0));
  return graph;
}

/// Each task needs the graph of its slot only, and most slots have the graph of another one.
std::vector<std::shared_ptr<const TaskGraph>> graphsOf(const std::vector<Slot>& slots,
                                                       const SlotRanks& ranks) {
  std::map<std::tuple<int, bool, bool>, std::shared_ptr<const TaskGraph>> made;
  std::vector<std::shared_ptr<const TaskGraph>> graphs;
  for (const Slot& slot : slots) {
    const int owner = ranks.hosts.empty() ? slot.owner % ranks.world : slot.owner;
    auto& graph = made[{owner, slot.aggregateCodec == nullptr, !slot.raw && mergesDecoded(*slot.codec)}];
    if (graph == nullptr) graph = std::make_shared<const TaskGraph>(graphOf(slot, ranks));
    graphs.push_back(graph);
  }
  return graphs;
}

size_t hopsOf(const TaskGraph& graph) {
  size_t hops = 0;
  for (const Task& task : graph.tasks())
    hops = std::max<size_t>(hops, task.level + (task.primitive == Primitive::kSend ? 1u : 0u));
  return hops;
}

/// The hops of all ranks, which start equally many collectives. A slot is asked for each owner if hosts may
/// differ, and otherwise one for all.
size_t hopsOfAll(const std::vector<Slot>& slots, SlotRanks ranks) {
  size_t hops = 0;
  std::set<int> owners;
  for (const Slot& slot : slots) {
    if (!owners.insert(ranks.hosts.empty() ? 0 : slot.owner).second) continue;
    for (ranks.rank = 0; ranks.rank < ranks.world; ++ranks.rank)
      hops = std::max(hops, hopsOf(graphOf(slot, ranks)));
  }
  return hops;
}

}  // namespace

SlotProgram::SlotProgram(std::vector<Slot> slots, SlotRanks ranks)
    : slots_(std::move(slots)), ranks_(std::move(ranks)), isAllToAll_(isDirect(ranks_.topology)) {
  if (ranks_.rank < 0 || ranks_.rank >= ranks_.world)
    throw invalidArgument("the rank of a program must be in its group");
  for (const Slot& slot : slots_) {
    check(slot);
    tensors_ = std::max(tensors_, slot.tensor + 1);
  }
  graphs_ = graphsOf(slots_, ranks_);
  // With dense hops each rank has all of them, whatever its part.
  size_t hops = isAllToAll_ ? 0 : hopsOfAll(slots_, ranks_);
  for (const auto& graph : graphs_) hops = std::max(hops, hopsOf(*graph));
  work_.resize(hops + 1);
  arrivals_.resize(hops + 1);
  for (size_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& tasks = graph(slot).tasks();
    for (TaskIndex index = 0; index < tasks.size(); ++index) {
      const Primitive primitive = tasks[index].primitive;
      if (primitive == Primitive::kSend) continue;
      (primitive == Primitive::kRecv ? arrivals_ : work_)[tasks[index].level].push_back({slot, index});
    }
  }
  SlotLayout layout = layOut(*this, hops);
  hops_ = std::move(layout.hops);
  copies_ = std::move(layout.copies);
  messagesAt_ = std::move(layout.messagesAt);
  sumsAt_ = std::move(layout.sumsAt);
  arenaBytes_ = layout.bytes;
}

bool SlotProgram::isRaw(size_t slot, MessageIndex message) const {
  return slots_[slot].raw || graph(slot).messages()[message].plain;
}

size_t SlotProgram::payloadBytes(size_t slot, MessageIndex message) const {
  const Slot& own = slots_[slot];
  return isRaw(slot, message) ? own.count * elementSize(own.dtype) : own.payloadBytes;
}

std::optional<size_t> SlotProgram::sumAt(size_t slot, SumIndex sum) const {
  return sumsAt_[slot][sum];
}

void SlotProgram::checkTensors(std::span<const SlotValues> tensors) const {
  if (tensors.size() < tensors_) throw invalidArgument("the program has more tensors than are given");
  for (const Slot& slot : slots_) {
    if (slot.first + slot.count > tensors[slot.tensor].count)
      throw invalidArgument("tensor '" + slot.name + "' has fewer elements than its slots");
    if (tensors[slot.tensor].dtype != slot.dtype)
      throw invalidArgument("tensor '" + slot.name + "' has elements of type " +
                            std::string(dtypeName(tensors[slot.tensor].dtype)) + ", and its slots are for " +
                            std::string(dtypeName(slot.dtype)));
  }
}

void SlotProgram::checkArena(size_t bytes) const {
  if (bytes == arenaBytes_) return;
  throw invalidArgument("the arena has " + std::to_string(bytes) + " bytes, and the program needs " +
                        std::to_string(arenaBytes_));
}

std::string SlotProgram::text() const {
  std::string text = "rank " + std::to_string(ranks_.rank) + " of " + std::to_string(ranks_.world) +
                     ", topology " + ranks_.topology + ", arena " + std::to_string(arenaBytes_) + " bytes\n";
  for (size_t run = 0; run <= hops_.size(); ++run) {
    std::array<size_t, 3> tasks{};
    for (const auto& [slot, task] : work(run))
      ++tasks[static_cast<size_t>(graph(slot).tasks()[task].primitive)];
    text += "run " + std::to_string(run) + ":";
    for (const Primitive primitive : {Primitive::kMerge, Primitive::kEncode, Primitive::kDecode}) {
      text += std::string(" ") + primitiveName(primitive) + " " +
              std::to_string(tasks[static_cast<size_t>(primitive)]);
    }
    text += ", copy " + std::to_string(copies(run).size()) + "\n";
    if (run == hops_.size()) break;
    text += isAllToAll_ ? "all_to_all:" : "exchange:";
    for (const auto& [name, bytes] :
         {std::pair{"sends", &hops_[run].sent}, {"receives", &hops_[run].received}}) {
      text += std::string(" ") + name;
      for (const size_t each : *bytes) text += " " + std::to_string(each);
    }
    text += " bytes\n";
  }
  return text;
}

}  // namespace hipress
