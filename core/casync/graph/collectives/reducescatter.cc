// SPDX-License-Identifier: Apache-2.0
//
// The first half of ps: the owner of a block gets it from all ranks and merges it in rank order.
#include "core/casync/graph/collectives.h"
#include "core/casync/graph/topologies/exchange.h"

namespace hipress {

TaskGraph buildReducescatter(const TopologyContext& context) {
  TaskGraph graph;
  // Each rank starts behind itself, so that not all ranks send to rank 0 first.
  for (int steps = 1; steps <= context.worldSize; ++steps) {
    const auto owner = static_cast<uint16_t>((context.rank + steps) % context.worldSize);
    addReduce(graph, flatExchange(context, owner));
  }
  return graph;
}

}  // namespace hipress
