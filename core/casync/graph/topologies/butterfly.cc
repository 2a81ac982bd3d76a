// SPDX-License-Identifier: Apache-2.0
//
// Recursive halving and doubling (Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication
// Operations in MPICH", 2005, §4.4). Each partition has a binomial tree with its owner at the root; the trees
// of all partitions together are the butterfly. A partial sum is encoded at most ⌊log₂ N⌋ times on its way to
// the owner, where a ring encodes it N−1 times.
//   leaf:   encode → send → recv the result → send it on → decode
//   inner:  recv from the children → merge → encode → send → recv the result → send it on → decode
//   owner:  recv from the children → merge → encode the result → send it → decode
//
// A place is a member's number in the tree of one partition; the owner has place 0. The parent of a place is
// the place without its highest bit.
#include <bit>

#include "core/casync/graph/topologies/exchange.h"

namespace hipress {
namespace {

/// If the number of members is a power of two, members exchange partitions in pairs.
size_t placeOf(const Exchange& exchange, size_t position) {
  const size_t size = exchange.size();
  if (std::has_single_bit(size)) return position ^ exchange.owner;
  return (position + size - exchange.owner) % size;
}

int rankAt(const Exchange& exchange, size_t place) {
  const size_t size = exchange.size();
  const size_t position =
      std::has_single_bit(size) ? place ^ exchange.owner : (place + exchange.owner) % size;
  return exchange.members[position];
}

size_t parentOf(size_t place) {
  return place - std::bit_floor(place);
}

/// The children of a place, the nearest first.
std::vector<size_t> childrenOf(size_t place, size_t size) {
  std::vector<size_t> children;
  for (size_t bit = std::bit_floor(place) * 2 + (place == 0); place + bit < size; bit *= 2) {
    children.push_back(place + bit);
  }
  return children;
}

/// The number of messages in a row before the sum of a place's subtree: the longest way, by nearest children.
size_t levelsBelow(size_t place, size_t size) {
  size_t levels = 0;
  for (auto children = childrenOf(place, size); !children.empty(); children = childrenOf(place, size)) {
    place = children.front();
    ++levels;
  }
  return levels;
}

}  // namespace

Outcome addButterfly(TaskGraph& graph, const Exchange& exchange) {
  const size_t size = exchange.size();
  const size_t place = placeOf(exchange, exchange.position);
  const std::vector<size_t> children = childrenOf(place, size);

  // The sum of this rank's subtree. A leaf has its own gradient only.
  Operand sum = exchange.own;
  std::vector<TaskIndex> sumReady = exchange.ownReady;
  const bool isLeaf = children.empty() && place > 0;
  if (!isLeaf) {
    std::vector<Operand> contributions = {exchange.own};
    for (const size_t child : children) {
      const MessageIndex partial = graph.addMessage(exchange.partition);
      contributions.push_back(Operand::message(partial));
      const size_t depth = exchange.depth + levelsBelow(child, size);
      sumReady.push_back(graph.recv(partial, rankAt(exchange, child), kToAggregate, depth));
    }
    const SumIndex index = graph.addSum();
    const MergeAs as = place == 0 ? MergeAs::kWholeSum : MergeAs::kPartialSum;
    sumReady = {graph.merge(exchange.partition, index, std::move(contributions), as, sumReady)};
    sum = Operand::sum(index);
  }

  const MessageIndex result = graph.addMessage(exchange.partition);
  TaskIndex resultReady = 0;
  std::vector<TaskIndex> before;
  if (place == 0) {
    resultReady = graph.encode(result, sum, EncodeAs::kResult, sumReady);
  } else {
    const int parent = rankAt(exchange, parentOf(place));
    const MessageIndex partial = graph.addMessage(exchange.partition);
    const EncodeAs as = isLeaf ? EncodeAs::kContribution : EncodeAs::kPartialSum;
    const TaskIndex encode = graph.encode(partial, sum, as, sumReady);
    before.push_back(graph.send(partial, parent, kToAggregate, {encode}));
    const auto above = static_cast<size_t>(std::popcount(parentOf(place)));
    resultReady = graph.recv(result, parent, kFromAggregate, exchange.depth + levelsBelow(0, size) + above);
  }
  // The nearest child has the most places below it, so it goes first.
  for (const size_t child : children)
    graph.send(result, rankAt(exchange, child), kFromAggregate, {resultReady});
  // The decode overwrites the gradient, which the send to the parent may still read.
  before.push_back(resultReady);
  graph.decode(result, before);
  return {result, resultReady};
}

}  // namespace hipress
