// SPDX-License-Identifier: Apache-2.0
//
// CaSync-PS (SOSP'21, §3.1 and §6.1): every rank is a worker and, for its share of the partitions, the
// aggregator.
//   worker:      encode → send → recv → decode
//   aggregator:  recv from all → merge in rank order (its own gradient unencoded) → encode → send to all →
//   decode
// If the codec merges decoded values only, the aggregator encodes its own gradient for the merge, too.
// The aggregator decodes its own message, so that every rank ends with the same bytes.
#include <utility>

#include "core/casync/graph/topologies/exchange.h"

namespace hipress {
namespace {

TaskIndex sendOwn(TaskGraph& graph, const Exchange& exchange) {
  const MessageIndex gradient = graph.addMessage(exchange.partition);
  const TaskIndex encode = graph.encode(gradient, exchange.own, EncodeAs::kContribution, exchange.ownReady);
  return graph.send(gradient, exchange.members[exchange.owner], kToAggregate, {encode});
}

Outcome addWorker(TaskGraph& graph, const Exchange& exchange) {
  const int aggregator = exchange.members[exchange.owner];
  const TaskIndex send = sendOwn(graph, exchange);
  const MessageIndex aggregate = graph.addMessage(exchange.partition);
  const TaskIndex recv = graph.recv(aggregate, aggregator, kFromAggregate, exchange.depth + 1);
  // The decode overwrites the gradient, which the send may still read.
  graph.decode(aggregate, {recv, send});
  return {aggregate, recv};
}

/// This rank's contribution as decoded from its own encoding. Adds the encode to the tasks before the merge.
Operand encodeOwn(TaskGraph& graph, const Exchange& exchange, std::vector<TaskIndex>& before) {
  const MessageIndex message = graph.addMessage(exchange.partition);
  before.push_back(graph.encode(message, exchange.own, EncodeAs::kContribution, exchange.ownReady));
  return Operand::message(message);
}

/// The contributions of all members in rank order. Adds the tasks that make them ready.
std::vector<Operand> receiveAll(TaskGraph& graph, const Exchange& exchange,
                                std::vector<TaskIndex>& received) {
  std::vector<Operand> contributions;
  received = exchange.ownReady;
  for (size_t member = 0; member < exchange.size(); ++member) {
    if (member == exchange.position) {
      contributions.push_back(exchange.mergesDecoded ? encodeOwn(graph, exchange, received) : exchange.own);
      continue;
    }
    const MessageIndex message = graph.addMessage(exchange.partition);
    contributions.push_back(Operand::message(message));
    received.push_back(graph.recv(message, exchange.members[member], kToAggregate, exchange.depth));
  }
  return contributions;
}

Outcome addAggregator(TaskGraph& graph, const Exchange& exchange) {
  std::vector<TaskIndex> received;
  std::vector<Operand> contributions = receiveAll(graph, exchange, received);
  const SumIndex sum = graph.addSum();
  const TaskIndex merge =
      graph.merge(exchange.partition, sum, std::move(contributions), MergeAs::kWholeSum, received);
  const MessageIndex aggregate = graph.addMessage(exchange.partition);
  const TaskIndex encode = graph.encode(aggregate, Operand::sum(sum), EncodeAs::kResult, {merge});
  // Each aggregator starts behind itself: aggregators that finish together do not all send to rank 0 first.
  for (size_t steps = 1; steps < exchange.size(); ++steps) {
    graph.send(aggregate, exchange.memberAfter(exchange.position, steps), kFromAggregate, {encode});
  }
  graph.decode(aggregate, {encode});
  return {aggregate, encode};
}

}  // namespace

Outcome addPs(TaskGraph& graph, const Exchange& exchange) {
  return exchange.position == exchange.owner ? addAggregator(graph, exchange) : addWorker(graph, exchange);
}

void addReduce(TaskGraph& graph, const Exchange& exchange) {
  if (exchange.position != exchange.owner) {
    sendOwn(graph, exchange);
    return;
  }
  std::vector<TaskIndex> received;
  std::vector<Operand> contributions = receiveAll(graph, exchange, received);
  graph.merge(exchange.partition, graph.addSum(), std::move(contributions), MergeAs::kOutput, received);
}

}  // namespace hipress
