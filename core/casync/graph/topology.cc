// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/topology.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/casync/graph/topologies/exchange.h"

namespace hipress {
namespace {

constexpr std::string_view kHierarchical = "hierarchical";
constexpr std::string_view kAuto = "auto";
constexpr std::array<std::pair<std::string_view, AddExchange>, 4> kFlat = {
    {{"ps", addPs}, {"ring", addRing}, {"butterfly", addButterfly}, {"allgather", addAllgather}}};

AddExchange flatTopology(std::string_view name) {
  for (const auto& [known, add] : kFlat) {
    if (known == name) return add;
  }
  return nullptr;
}

struct Parsed {
  bool hierarchical = false;
  AddExchange exchange = nullptr;  // nullptr: the name is unknown
};

Parsed parse(std::string_view name) {
  if (!name.starts_with(kHierarchical)) return {false, flatTopology(name)};
  std::string_view between = name.substr(kHierarchical.size());
  if (between.empty()) return {true, addPs};
  if (!between.starts_with('(') || !between.ends_with(')')) return {};
  between.remove_prefix(1);
  between.remove_suffix(1);
  return {true, flatTopology(between)};
}

}  // namespace

const std::vector<std::string>& topologyNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, add] : kFlat) all.emplace_back(name);
    all.emplace_back(kHierarchical);
    return all;
  }();
  return names;
}

std::string_view resolvedTopology(std::string_view name, int worldSize) {
  if (name != kAuto) return name;
  // Between two ranks an allgather has as many bytes as ps, and one hop and one lossy encoding fewer.
  return worldSize == 2 ? "allgather" : "ps";
}

void checkTopologyName(std::string_view name) {
  if (name == kAuto || parse(name).exchange != nullptr) return;
  std::string known;
  for (const auto& each : topologyNames()) known += (known.empty() ? "" : ", ") + each;
  throw invalidArgument(
      "there is no topology '" + std::string(name) + "'; choose one of: " + known +
      "; hierarchical may name the topology between hosts, as in hierarchical(ring), and auto is "
      "allgather between two ranks and ps between more");
}

Exchange flatExchange(const TopologyContext& context, uint16_t partition) {
  Exchange exchange;
  exchange.partition = partition;
  exchange.members.resize(static_cast<size_t>(context.worldSize));
  std::iota(exchange.members.begin(), exchange.members.end(), 0);
  exchange.position = static_cast<size_t>(context.rank);
  exchange.owner = (static_cast<size_t>(context.firstRank) + partition) % exchange.size();
  exchange.own = Operand::input();
  exchange.mergesDecoded = context.mergesDecoded;
  return exchange;
}

TaskGraph buildTopology(std::string_view name, const TopologyContext& context) {
  checkTopologyName(name);
  const Parsed topology = parse(resolvedTopology(name, context.worldSize));
  TaskGraph graph;
  const auto hosts = topology.hierarchical ? ranksByHost(context) : std::vector<std::vector<int>>{};
  for (uint16_t partition = 0; partition < context.partitions; ++partition) {
    if (topology.hierarchical) {
      addHierarchical(graph, context, hosts, partition, topology.exchange);
      continue;
    }
    topology.exchange(graph, flatExchange(context, partition));
  }
  return graph;
}

Encoders encodersOf(std::string_view topology, TopologyContext context) {
  Encoders encoders;
  context.partitions = 1;
  for (context.rank = 0; context.rank < context.worldSize; ++context.rank) {
    const TaskGraph graph = buildTopology(topology, context);
    for (const Task& task : graph.tasks()) {
      if (task.primitive != Primitive::kEncode || graph.messages()[task.message].plain) continue;
      if (task.encodeAs == EncodeAs::kResult)
        encoders.aggregator = context.rank;
      else
        encoders.workers.push_back(context.rank);
    }
  }
  return encoders;
}

bool isDirect(std::string_view topology) {
  return topology == kAuto || topology == "ps" || topology == "allgather";
}

bool crossesNetwork(std::string_view topology, const std::vector<int>& hosts, int worldSize) {
  if (!parse(topology).hierarchical) return worldSize > 1;
  return std::adjacent_find(hosts.begin(), hosts.end(), std::not_equal_to<>()) != hosts.end();
}

}  // namespace hipress
