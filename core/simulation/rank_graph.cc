// SPDX-License-Identifier: Apache-2.0
#include "core/simulation/rank_graph.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

/// The message for which a receive waits: partition, hop and sender.
using Expected = std::tuple<uint32_t, uint16_t, int>;
using Receives = std::map<Expected, TaskIndex>;

void countOperands(const TaskGraph& graph, const Task& merge, SimulatedTask& task) {
  task.partial = merge.mergeAs == MergeAs::kPartialSum;
  for (const Operand& operand : merge.from) {
    if (operand.kind != Operand::Kind::kMessage) {
      ++task.elements;
    } else if (graph.messages()[operand.index].lent) {
      ++task.lentElements;
    } else if (graph.messages()[operand.index].plain) {
      ++task.elements;
    } else {
      ++task.encoded;
      task.partial = false;
    }
  }
}

RankGraph reduced(const TaskGraph& graph) {
  RankGraph result;
  result.tasks.reserve(graph.tasks().size() + 1);
  for (const Task& task : graph.tasks()) {
    SimulatedTask& simulated = result.tasks.emplace_back();
    simulated.primitive = task.primitive;
    simulated.peer = task.peer;
    simulated.dependencies = task.dependencies;
    simulated.firstSuccessor = static_cast<uint32_t>(result.successors.size());
    result.successors.insert(result.successors.end(), task.successors.begin(), task.successors.end());
    if (task.primitive == Primitive::kMerge) {
      countOperands(graph, task, simulated);
      continue;
    }
    simulated.plain = graph.messages()[task.message].plain;
    simulated.own = graph.messages()[task.message].own && !simulated.plain;
    simulated.lent = graph.messages()[task.message].lent;
    simulated.encodesSum =
        task.primitive == Primitive::kEncode && task.from.front().kind == Operand::Kind::kSum;
  }
  result.tasks.emplace_back().firstSuccessor = static_cast<uint32_t>(result.successors.size());
  result.roots = graph.roots();
  std::stable_partition(result.roots.begin(), result.roots.end(), [&graph](TaskIndex root) {
    return graph.tasks()[root].primitive == Primitive::kRecv;
  });
  return result;
}

Receives receivesOf(const TaskGraph& graph) {
  Receives receives;
  const auto& tasks = graph.tasks();
  for (TaskIndex index = 0; index < tasks.size(); ++index) {
    const Task& task = tasks[index];
    if (task.primitive == Primitive::kRecv) receives[{task.partition, task.hop, task.peer}] = index;
  }
  return receives;
}

}  // namespace

bool isHierarchical(const std::string& topology) {
  return topology.starts_with("hierarchical");
}

bool hasShares(const std::string& topology) {
  return isHierarchical(topology) || topology != "allgather";
}

std::vector<RankGraphPointer> graphsOfAll(const std::string& topology, size_t partitions, int firstRank,
                                          const std::vector<int>& hosts, bool mergesDecoded) {
  const int world = static_cast<int>(hosts.size());
  std::vector<TaskGraph> graphs;
  std::vector<Receives> receives;
  for (int rank = 0; rank < world; ++rank) {
    graphs.push_back(buildTopology(
        topology, {rank, world, static_cast<uint16_t>(partitions), firstRank, hosts, mergesDecoded}));
    receives.push_back(receivesOf(graphs.back()));
  }
  std::vector<RankGraphPointer> result;
  for (int rank = 0; rank < world; ++rank) {
    const auto& tasks = graphs[static_cast<size_t>(rank)].tasks();
    auto graph = std::make_shared<RankGraph>(reduced(graphs[static_cast<size_t>(rank)]));
    for (size_t index = 0; index < tasks.size(); ++index) {
      const Task& task = tasks[index];
      if (task.primitive != Primitive::kSend) continue;
      graph->tasks[index].arrivesAs =
          receives[static_cast<size_t>(task.peer)].at({task.partition, task.hop, rank});
    }
    result.push_back(std::move(graph));
  }
  return result;
}

RankGrid::RankGrid(const std::vector<int>& hosts) {
  const auto byHost = [&hosts](int one, int other) {
    return hosts[static_cast<size_t>(one)] < hosts[static_cast<size_t>(other)];
  };
  for (size_t rank = 0; rank < hosts.size(); ++rank) ranks_.push_back(static_cast<int>(rank));
  std::stable_sort(ranks_.begin(), ranks_.end(), byHost);
  perHost_ = static_cast<size_t>(std::count(hosts.begin(), hosts.end(), hosts.front()));
  hosts_ = hosts.size() / perHost_;
  position_.resize(hosts.size());
  for (size_t position = 0; position < ranks_.size(); ++position) {
    position_[static_cast<size_t>(ranks_[position])] = position;
    const int first = ranks_[position / perHost_ * perHost_];
    const bool sameHost = hosts[static_cast<size_t>(ranks_[position])] == hosts[static_cast<size_t>(first)];
    if (!sameHost || hosts.size() % perHost_ != 0)
      throw unsupported("one rank cannot stand for all: hosts differ in their number of ranks");
  }
}

int RankGrid::owner(bool hierarchical, size_t share) const {
  share %= ranks();
  return hierarchical ? at(share % hosts_, share / hosts_) : static_cast<int>(share);
}

int RankGrid::turned(int rank, int from) const {
  const size_t position = position_[static_cast<size_t>(rank)];
  const size_t origin = position_[static_cast<size_t>(from)];
  const size_t host = (position / perHost_ + hosts_ - origin / perHost_) % hosts_;
  const size_t place = (position % perHost_ + perHost_ - origin % perHost_) % perHost_;
  return at(host, place);
}

RankGraphPointer representativeGraph(const std::string& topology, const std::vector<int>& hosts,
                                     const RankGrid& grid, bool mergesDecoded) {
  const int world = static_cast<int>(hosts.size());
  const bool shares = hasShares(topology);
  const size_t partitions = shares ? hosts.size() : 1;
  const TaskGraph built =
      buildTopology(topology, {0, world, static_cast<uint16_t>(partitions), 0, hosts, mergesDecoded});
  const bool hierarchical = isHierarchical(topology);
  std::vector<uint32_t> shareOf(hosts.size());
  for (size_t share = 0; share < hosts.size(); ++share)
    shareOf[static_cast<size_t>(grid.owner(hierarchical, share))] = static_cast<uint32_t>(share);

  const Receives receives = receivesOf(built);
  auto graph = std::make_shared<RankGraph>(reduced(built));
  for (size_t index = 0; index < built.tasks().size(); ++index) {
    const Task& task = built.tasks()[index];
    SimulatedTask& simulated = graph->tasks[index];
    simulated.ownShare = shares && task.partition == 0;
    if (task.primitive != Primitive::kSend) continue;
    // The turn that brings the receiver to rank 0's place shows the message that rank 0 receives then.
    const int sender = grid.turned(0, task.peer);
    const int owner = grid.turned(grid.owner(hierarchical, task.partition), task.peer);
    const uint32_t share = shares ? shareOf[static_cast<size_t>(owner)] : 0;
    const auto found = receives.find({share, task.hop, sender});
    if (found == receives.end()) {
      throw unsupported("one rank cannot stand for all in topology '" + topology +
                        "' where hosts have several ranks: they do not do the same");
    }
    simulated.arrivesAs = found->second;
  }
  return graph;
}

}  // namespace hipress
