// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree. With ranks counted from the root, rank r > 0 receives from r without its highest set bit and
// sends to r + 2^k for every 2^k above r's highest bit. Partitions flow down the tree independently.
#include <bit>

#include "core/casync/topology.h"

namespace hipress {

TaskGraph buildBroadcast(const TopologyContext& context) {
  const int world = context.worldSize;
  const int position = (context.rank - context.firstRank + world) % world;
  int highestBit = 1;
  while (highestBit <= position) highestBit *= 2;  // the first power of two above the position
  const auto hopsBefore =
      position == 0 ? 0 : static_cast<size_t>(std::popcount(static_cast<unsigned>(position))) - 1;
  const auto rankAt = [&](int place) { return (place + context.firstRank) % world; };

  TaskGraph graph;
  for (uint16_t partition = 0; partition < context.partitions; ++partition) {
    const MessageIndex values = graph.addMessage(partition);
    const TaskIndex ready = position == 0
                                ? graph.encode(values, Operand::input(), EncodeAs::kContribution, {})
                                : graph.recv(values, rankAt(position - highestBit / 2), 0, hopsBefore);
    // The nearest child has the largest subtree: it goes first.
    for (int step = highestBit; position + step < world; step *= 2) {
      graph.send(values, rankAt(position + step), 0, {ready});
    }
    if (position != 0) graph.decode(values, {ready});
  }
  return graph;
}

}  // namespace hipress
