// SPDX-License-Identifier: Apache-2.0
//
// Each rank's block goes directly to every rank: one hop, and every link carries each block once.
#include "core/casync/graph/collectives.h"
#include "core/casync/graph/topologies/exchange.h"

namespace hipress {

TaskGraph buildAllgather(const TopologyContext& context) {
  TaskGraph graph;
  const Gathered gathered = gatherMessages(graph, flatExchange(context, 0),
                                           [](size_t owner) { return static_cast<uint16_t>(owner); });
  for (size_t owner = 0; owner < gathered.messages.size(); ++owner)
    graph.decode(gathered.messages[owner], {gathered.ready[owner]});
  return graph;
}

}  // namespace hipress
