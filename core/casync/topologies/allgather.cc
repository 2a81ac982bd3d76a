// SPDX-License-Identifier: Apache-2.0
//
// Everybody's encoded gradient to everybody, who decode all of them, their own too, in the same order: one
// encoding, one hop, and N−1 times the bytes. For codecs whose messages are small, or whose sums are not
// sparse any more.
#include "core/casync/topologies/exchange.h"

namespace hipress {

Outcome addAllgather(TaskGraph& graph, const Exchange& exchange) {
  const MessageIndex own = graph.addMessage(exchange.partition);
  const TaskIndex encode = graph.encode(own, exchange.own, EncodeAs::kContribution, exchange.ownReady);
  // The output may be where the gradient is, which sends may still read.
  std::vector<TaskIndex> before = {encode};
  for (size_t steps = 1; steps < exchange.size(); ++steps) {
    before.push_back(graph.send(own, exchange.memberAfter(exchange.position, steps), kToAggregate, {encode}));
  }
  std::vector<Operand> contributions;
  for (size_t member = 0; member < exchange.size(); ++member) {
    if (member == exchange.position) {
      contributions.push_back(Operand::message(own));
      continue;
    }
    const MessageIndex message = graph.addMessage(exchange.partition);
    contributions.push_back(Operand::message(message));
    before.push_back(graph.recv(message, exchange.members[member], kToAggregate, exchange.depth));
  }
  const TaskIndex merge =
      graph.merge(exchange.partition, graph.addSum(), std::move(contributions), MergeAs::kOutput, before);
  return {std::nullopt, merge};
}

}  // namespace hipress
