// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree. With ranks counted from the root, rank r > 0 receives from r without its highest set bit and
// sends to r + 2^k for every 2^k above r's highest bit. Partitions flow down the tree independently.
//
// Who has received says so: otherwise nothing would keep a root from sending broadcast after broadcast to a
// rank that is late, which would have to keep them all.
#include <bit>

#include "core/casync/collectives.h"

namespace hipress {
namespace {

constexpr uint16_t kDown = 0;
constexpr uint16_t kReceived = 1;

}  // namespace

TaskGraph buildBroadcast(const TopologyContext& context) {
  const int world = context.worldSize;
  const int position = (context.rank - context.firstRank + world) % world;
  int highestBit = 1;
  while (highestBit <= position) highestBit *= 2;  // the first power of two above the position
  const auto hops = static_cast<size_t>(std::popcount(static_cast<unsigned>(position)));  // from the root
  const auto rankAt = [&](int place) { return (place + context.firstRank) % world; };

  TaskGraph graph;
  for (uint16_t partition = 0; partition < context.partitions; ++partition) {
    const MessageIndex values = graph.addMessage(partition);
    const TaskIndex ready = position == 0
                                ? graph.encode(values, Operand::input(), EncodeAs::kContribution, {})
                                : graph.recv(values, rankAt(position - highestBit / 2), kDown, hops - 1);
    // The nearest child has the largest subtree: it goes first.
    for (int step = highestBit; position + step < world; step *= 2) {
      graph.send(values, rankAt(position + step), kDown, {ready});
      graph.recv(graph.addMessage(partition), rankAt(position + step), kReceived, hops + 1);
    }
    graph.decode(values, {ready});  // at the root, too, whose result may be somewhere else
    if (position == 0) continue;
    const MessageIndex received = graph.addMessage(partition);
    const TaskIndex encode = graph.encode(received, Operand::nothing(), EncodeAs::kContribution, {ready});
    graph.send(received, rankAt(position - highestBit / 2), kReceived, {encode});
  }
  return graph;
}

}  // namespace hipress
