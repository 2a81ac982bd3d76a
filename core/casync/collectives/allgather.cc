// SPDX-License-Identifier: Apache-2.0
//
// Everybody's block directly to everybody: one hop, and every link carries what crosses it once.
#include "core/casync/collectives.h"

namespace hipress {

TaskGraph buildAllgather(const TopologyContext& context) {
  const int world = context.worldSize;
  TaskGraph graph;
  for (int owner = 0; owner < world; ++owner) {
    const MessageIndex block = graph.addMessage(static_cast<uint16_t>(owner));
    if (owner != context.rank) {
      graph.decode(block, {graph.recv(block, owner, 0, 0)});
      continue;
    }
    const TaskIndex encode = graph.encode(block, Operand::input(), EncodeAs::kContribution, {});
    // Starting behind itself, so that ranks do not all send to rank 0 first.
    for (int steps = 1; steps < world; ++steps) graph.send(block, (owner + steps) % world, 0, {encode});
    graph.decode(block, {encode});
  }
  return graph;
}

}  // namespace hipress
