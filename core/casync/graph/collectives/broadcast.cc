// SPDX-License-Identifier: Apache-2.0
//
// Binomial tree. With ranks counted from the root, rank r > 0 receives from r without its highest set bit and
// sends to r + 2^k for every 2^k above r's highest bit. Partitions flow down the tree independently.
//
// A rank reports to its parent when it and its children have the values. Then the root tells all ranks that
// all have them. So a broadcast ends on no rank before every rank has taken part: all ranks learn of ranks
// that call it differently, and no root fills the memory of a late rank with broadcasts.
#include <algorithm>
#include <bit>

#include "core/casync/graph/collectives.h"

namespace hipress {
namespace {

constexpr uint16_t kDown = 0;
constexpr uint16_t kReceived = 1;
constexpr uint16_t kDone = 2;

/// The first power of two above a position: the distance of the nearest child, doubled for each next child.
int firstStep(int position) {
  int step = 1;
  while (step <= position) step *= 2;
  return step;
}

/// Hops from a position to the farthest position below it.
size_t heightOf(int position, int world) {
  size_t height = 0;
  for (int step = firstStep(position); position + step < world; step *= 2)
    height = std::max(height, 1 + heightOf(position + step, world));
  return height;
}

}  // namespace

TaskGraph buildBroadcast(const TopologyContext& context) {
  const int world = context.worldSize;
  const int position = (context.rank - context.firstRank + world) % world;
  const int first = firstStep(position);
  const auto hops = static_cast<size_t>(std::popcount(static_cast<unsigned>(position)));  // from the root
  const auto rankAt = [&](int place) { return (place + context.firstRank) % world; };
  const int parent = rankAt(position - first / 2);
  const size_t height = heightOf(0, world);

  TaskGraph graph;
  for (uint16_t partition = 0; partition < context.partitions; ++partition) {
    const MessageIndex values = graph.addMessage(partition);
    const TaskIndex ready = position == 0
                                ? graph.encode(values, Operand::input(), EncodeAs::kContribution, {})
                                : graph.recv(values, parent, kDown, hops - 1);
    // The nearest child has the largest subtree, so it goes first.
    std::vector<TaskIndex> received = {ready};
    for (int step = first; position + step < world; step *= 2) {
      const int child = position + step;
      graph.send(values, rankAt(child), kDown, {ready});
      received.push_back(graph.recv(graph.addMessage(partition), rankAt(child), kReceived,
                                    hops + 1 + 2 * heightOf(child, world)));
    }
    const MessageIndex done = graph.addMessage(partition);
    graph.decode(values, {ready});  // at the root, too: its result may be elsewhere
    TaskIndex everybody = 0;
    if (position == 0) {
      everybody = graph.encode(done, Operand::nothing(), EncodeAs::kContribution, received);
    } else {
      const MessageIndex word = graph.addMessage(partition);
      const TaskIndex encode = graph.encode(word, Operand::nothing(), EncodeAs::kContribution, received);
      graph.send(word, parent, kReceived, {encode});
      everybody = graph.recv(done, parent, kDone, 2 * height + hops - 1);
    }
    for (int step = first; position + step < world; step *= 2)
      graph.send(done, rankAt(position + step), kDone, {everybody});
  }
  return graph;
}

}  // namespace hipress
