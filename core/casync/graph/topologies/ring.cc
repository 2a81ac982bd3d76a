// SPDX-License-Identifier: Apache-2.0
//
// CaSync-Ring (SOSP'21, §3.1): the partial sum goes once around the ring, from the member behind the owner to
// the owner, and each member adds its own gradient. Then the result goes around unchanged.
//   first:   encode → send
//   others:  recv → merge → encode → send
//   owner:   recv → merge → encode → send the result → decode
//   others:  recv the result → send it on → decode
#include "core/casync/graph/topologies/exchange.h"

namespace hipress {
namespace {

/// The number of members that have added their gradient before the partial sum comes to this member.
size_t membersBefore(const Exchange& exchange) {
  const size_t first = exchange.owner + 1;
  return (exchange.position + exchange.size() - first % exchange.size()) % exchange.size();
}

/// Merges the partial sum of the members before this one and its own gradient.
Operand addOwn(TaskGraph& graph, const Exchange& exchange, MergeAs as, std::vector<TaskIndex>* ready) {
  const SumIndex sum = graph.addSum();
  std::vector<Operand> contributions;
  std::vector<TaskIndex> after = exchange.ownReady;
  if (exchange.size() > 1) {
    const MessageIndex partial = graph.addMessage(exchange.partition);
    const int previous = exchange.memberAfter(exchange.position, exchange.size() - 1);
    const size_t depth = exchange.depth + membersBefore(exchange) - 1;
    after.push_back(graph.recv(partial, previous, kToAggregate, depth));
    contributions.push_back(Operand::message(partial));
  }
  contributions.push_back(exchange.own);
  *ready = {graph.merge(exchange.partition, sum, std::move(contributions), as, after)};
  return Operand::sum(sum);
}

}  // namespace

Outcome addRing(TaskGraph& graph, const Exchange& exchange) {
  const size_t size = exchange.size();
  const int next = exchange.memberAfter(exchange.position, 1);
  const int previous = exchange.memberAfter(exchange.position, size - 1);
  const size_t first = (exchange.owner + 1) % size;
  const MessageIndex result = graph.addMessage(exchange.partition);

  if (exchange.position == exchange.owner) {
    std::vector<TaskIndex> merged;
    const Operand sum = addOwn(graph, exchange, MergeAs::kWholeSum, &merged);
    const TaskIndex encode = graph.encode(result, sum, EncodeAs::kResult, merged);
    if (size > 1) graph.send(result, next, kFromAggregate, {encode});
    graph.decode(result, {encode});
    return {result, encode};
  }

  const MessageIndex partial = graph.addMessage(exchange.partition);
  TaskIndex encode = 0;
  if (exchange.position == first) {
    encode = graph.encode(partial, exchange.own, EncodeAs::kContribution, exchange.ownReady);
  } else {
    std::vector<TaskIndex> merged;
    const Operand sum = addOwn(graph, exchange, MergeAs::kPartialSum, &merged);
    encode = graph.encode(partial, sum, EncodeAs::kPartialSum, merged);
  }
  const TaskIndex send = graph.send(partial, next, kToAggregate, {encode});
  const TaskIndex recv =
      graph.recv(result, previous, kFromAggregate, exchange.depth + size - 1 + membersBefore(exchange));
  if ((exchange.position + 1) % size != exchange.owner) graph.send(result, next, kFromAggregate, {recv});
  // The decode overwrites memory that the send may still read.
  graph.decode(result, {recv, send});
  return {result, recv};
}

}  // namespace hipress
