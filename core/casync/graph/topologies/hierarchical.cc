// SPDX-License-Identifier: Apache-2.0
//
// Two levels, as in BytePS (OSDI'20, §4). The ranks of a host add up their gradients uncompressed, in shared
// memory. The host leader, another rank for each partition, exchanges the sum with the leaders of other
// hosts, and sends the bytes of the result to its neighbours.
//   other:   send → recv → decode
//   leader:  recv from the host's ranks → merge in rank order → exchange between hosts → send to them
#include "core/casync/graph/topologies/exchange.h"
#include "core/casync/graph/topology.h"

namespace hipress {

/// The ranks of each host, in order; hosts in the order of their lowest rank.
std::vector<std::vector<int>> ranksByHost(const TopologyContext& context) {
  std::vector<std::vector<int>> ranks;
  std::vector<int> hosts;
  for (int rank = 0; rank < context.worldSize; ++rank) {
    const int host = context.hosts.empty() ? 0 : context.hosts[static_cast<size_t>(rank)];
    size_t index = 0;
    while (index < hosts.size() && hosts[index] != host) ++index;
    if (index == hosts.size()) {
      hosts.push_back(host);
      ranks.emplace_back();
    }
    ranks[index].push_back(rank);
  }
  return ranks;
}

void addHierarchical(TaskGraph& graph, const TopologyContext& context,
                     const std::vector<std::vector<int>>& hosts, uint16_t partition, AddExchange between) {
  const size_t share = static_cast<size_t>(context.firstRank) + partition;
  Exchange exchange;
  exchange.partition = partition;
  exchange.owner = share % hosts.size();
  const std::vector<int>* neighbours = nullptr;
  for (size_t host = 0; host < hosts.size(); ++host) {
    const auto& ranks = hosts[host];
    // Successive shares of a host have different leaders, so that all ranks get a share.
    exchange.members.push_back(ranks[share / hosts.size() % ranks.size()]);
    for (const int rank : ranks) {
      if (rank != context.rank) continue;
      exchange.position = host;
      neighbours = &ranks;
    }
  }
  exchange.depth = hosts.size() < static_cast<size_t>(context.worldSize) ? 1 : 0;
  const int leader = exchange.members[exchange.position];
  // An allgather leaves the result as elements, and no encoded message.
  const bool plainResult = between == addAllgather;

  if (context.rank != leader) {
    // The leader sends the result after it has read the gradient, so the gradient does not change before.
    const MessageIndex gradient = graph.addLentMessage(partition, leader);
    const TaskIndex encode = graph.encode(gradient, Operand::input(), EncodeAs::kContribution, {});
    const TaskIndex send = graph.send(gradient, leader, kToHost, {encode});
    const MessageIndex result = graph.addMessage(partition, plainResult);
    TaskGraph ofLeader;
    ofLeader.startAt(exchange.depth);
    exchange.own = Operand::input();
    const size_t depth = ofLeader.tasks()[between(ofLeader, exchange).ready].level;
    const TaskIndex recv = graph.recv(result, leader, kFromHost, depth);
    graph.decode(result, {recv, send});
    return;
  }

  exchange.own = Operand::input();
  if (neighbours->size() > 1) {
    std::vector<Operand> contributions;
    for (const int rank : *neighbours) {
      if (rank == context.rank) {
        contributions.push_back(Operand::input());
        continue;
      }
      const MessageIndex message = graph.addLentMessage(partition, rank);
      contributions.push_back(Operand::message(message));
      exchange.ownReady.push_back(graph.recv(message, rank, kToHost, 0));
    }
    const SumIndex sum = graph.addSum();
    exchange.ownReady = {
        graph.merge(partition, sum, std::move(contributions), MergeAs::kPartialSum, exchange.ownReady)};
    exchange.own = Operand::sum(sum);
  }
  // A host of one rank has its sum before the others.
  graph.startAt(exchange.depth);
  const Outcome outcome = between(graph, exchange);
  MessageIndex result = 0;
  TaskIndex ready = outcome.ready;
  if (plainResult) {
    result = graph.addMessage(partition, true);
    ready = graph.encode(result, Operand::output(), EncodeAs::kResult, {outcome.ready});
  } else {
    result = *outcome.message;
  }
  for (const int rank : *neighbours) {
    if (rank != context.rank) graph.send(result, rank, kFromHost, {ready});
  }
  graph.startAt(0);
}

}  // namespace hipress
