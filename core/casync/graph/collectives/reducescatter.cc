// SPDX-License-Identifier: Apache-2.0
//
// The first half of ps: the owner of a block gets it from all ranks and merges it in rank order.
#include <utility>

#include "core/casync/graph/collectives.h"

namespace hipress {

TaskGraph buildReducescatter(const TopologyContext& context) {
  const int world = context.worldSize;
  TaskGraph graph;
  for (int steps = 1; steps < world; ++steps) {
    const int owner = (context.rank + steps) % world;
    const MessageIndex block = graph.addMessage(static_cast<uint16_t>(owner));
    graph.send(block, owner, 0, {graph.encode(block, Operand::input(), EncodeAs::kContribution, {})});
  }
  const auto own = static_cast<uint16_t>(context.rank);
  std::vector<Operand> contributions;
  std::vector<TaskIndex> received;
  for (int rank = 0; rank < world; ++rank) {
    if (rank == context.rank) {
      contributions.push_back(Operand::input());
      continue;
    }
    const MessageIndex block = graph.addMessage(own);
    contributions.push_back(Operand::message(block));
    received.push_back(graph.recv(block, rank, 0, 0));
  }
  graph.merge(own, graph.addSum(), std::move(contributions), MergeAs::kOutput, received);
  return graph;
}

}  // namespace hipress
