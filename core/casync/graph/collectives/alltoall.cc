// SPDX-License-Identifier: Apache-2.0
//
// Each block goes directly to its receiver: one hop.
#include "core/casync/graph/collectives.h"

namespace hipress {

TaskGraph buildAlltoall(const TopologyContext& context) {
  const int world = context.worldSize;
  TaskGraph graph;
  // Each rank starts with itself, so that not all ranks send to rank 0 first.
  for (int steps = 0; steps < world; ++steps) {
    const int peer = (context.rank + steps) % world;
    const auto partition = static_cast<uint16_t>((context.rank + peer) % world);
    const MessageIndex own = graph.addMessage(partition);
    const TaskIndex encode = graph.encode(own, Operand::input(), EncodeAs::kContribution, {});
    if (peer == context.rank) {
      graph.decode(own, {encode});
      continue;
    }
    graph.send(own, peer, 0, {encode});
    const MessageIndex theirs = graph.addMessage(partition);
    graph.decode(theirs, {graph.recv(theirs, peer, 0, 0)});
  }
  return graph;
}

}  // namespace hipress
