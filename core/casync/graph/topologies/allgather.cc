// SPDX-License-Identifier: Apache-2.0
//
// Every member's encoded gradient goes to every member. Each member decodes all of them, its own too, in the
// same order: one encode, one hop, and N−1 times the bytes. For codecs with small payloads, and for codecs
// whose sums are not sparse any more.
#include "core/casync/graph/topologies/exchange.h"

namespace hipress {

Outcome addAllgather(TaskGraph& graph, const Exchange& exchange) {
  const Gathered gathered = gatherMessages(graph, exchange, [&](size_t) { return exchange.partition; });
  std::vector<Operand> contributions;
  for (const MessageIndex message : gathered.messages) contributions.push_back(Operand::message(message));
  // The output may be the gradient's memory, which sends may still read.
  std::vector<TaskIndex> before = gathered.ready;
  before.insert(before.end(), gathered.sends.begin(), gathered.sends.end());
  const TaskIndex merge =
      graph.merge(exchange.partition, graph.addSum(), std::move(contributions), MergeAs::kOutput, before);
  return {std::nullopt, merge};
}

}  // namespace hipress
