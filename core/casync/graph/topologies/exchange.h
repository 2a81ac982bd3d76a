// SPDX-License-Identifier: Apache-2.0
//
// The parts of topologies: one partition's exchange among some ranks. A flat topology exchanges among all
// ranks, the hierarchical one among one rank of each host.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/casync/graph/task_graph.h"

namespace hipress {

/// The numbers of a partition's messages. No two messages of a pair of ranks have the same number.
enum Hop : uint16_t {
  kToAggregate = 0,
  kFromAggregate = 1,
  kToHost = 2,
  kFromHost = 3,
};

struct Exchange {
  uint16_t partition = 0;
  std::vector<int> members;         ///< The ranks in the exchange.
  size_t position = 0;              ///< This rank's index in `members`.
  size_t owner = 0;                 ///< Index of the owner of the partition.
  Operand own;                      ///< This rank's contribution.
  size_t depth = 0;                 ///< Messages in a row before a member's contribution is ready.
  std::vector<TaskIndex> ownReady;  ///< Tasks that make the contribution ready; empty: none.
  bool mergesDecoded = false;       ///< An aggregator encodes its own contribution, too.

  size_t size() const { return members.size(); }
  /// The rank `steps` places behind `from`.
  int memberAfter(size_t from, size_t steps) const { return members[(from + steps) % members.size()]; }
};

/// The place of the result on this rank.
struct Outcome {
  std::optional<MessageIndex> message;  ///< The bytes of all members; empty: the output has the result.
  TaskIndex ready = 0;                  ///< The task after which the message or the output is ready.
};

/// Adds the tasks of one partition to the graph, with the decode into the output.
using AddExchange = Outcome (*)(TaskGraph& graph, const Exchange& exchange);

/// Parameter server with co-located aggregators: the owner aggregates.
Outcome addPs(TaskGraph& graph, const Exchange& exchange);
/// The first half of ps: the owner's output gets the result, and nobody else has one.
void addReduce(TaskGraph& graph, const Exchange& exchange);
/// A reduction along the ring that ends at the owner, then the result along the ring.
Outcome addRing(TaskGraph& graph, const Exchange& exchange);
/// Recursive halving and doubling: a binomial tree for each partition, with the owner at the root.
Outcome addButterfly(TaskGraph& graph, const Exchange& exchange);
/// Every member's contribution to every member.
Outcome addAllgather(TaskGraph& graph, const Exchange& exchange);

/// The messages of all members, on one rank.
struct Gathered {
  std::vector<MessageIndex> messages;  ///< Index: the member.
  std::vector<TaskIndex> ready;        ///< The task after which each is there.
  std::vector<TaskIndex> sends;        ///< The sends of this rank's own message.
};
/// `partitionOf(member)`: the partition of a member's message.
template <typename PartitionOf>
Gathered gatherMessages(TaskGraph& graph, const Exchange& exchange, const PartitionOf& partitionOf) {
  Gathered gathered;
  for (size_t member = 0; member < exchange.size(); ++member) {
    const MessageIndex message = graph.addMessage(partitionOf(member));
    gathered.messages.push_back(message);
    if (member != exchange.position) {
      gathered.ready.push_back(graph.recv(message, exchange.members[member], kToAggregate, exchange.depth));
      continue;
    }
    const TaskIndex encode = graph.encode(message, exchange.own, EncodeAs::kContribution, exchange.ownReady);
    gathered.ready.push_back(encode);
    // Each member starts with the next member, so that not all members send to the first one first.
    for (size_t steps = 1; steps < exchange.size(); ++steps) {
      const int peer = exchange.memberAfter(exchange.position, steps);
      gathered.sends.push_back(graph.send(message, peer, kToAggregate, {encode}));
    }
  }
  return gathered;
}

struct TopologyContext;
/// An exchange among all ranks.
Exchange flatExchange(const TopologyContext& context, uint16_t partition);
/// The ranks of each host, in order; hosts in the order of their lowest rank.
std::vector<std::vector<int>> ranksByHost(const TopologyContext& context);
/// An exchange among the ranks of each host, then `between` among one rank of each host.
void addHierarchical(TaskGraph& graph, const TopologyContext& context,
                     const std::vector<std::vector<int>>& hosts, uint16_t partition, AddExchange between);

}  // namespace hipress
