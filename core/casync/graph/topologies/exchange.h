// SPDX-License-Identifier: Apache-2.0
//
// What topologies are made of: one partition's exchange among some ranks. The flat topologies exchange among
// all ranks, the hierarchical one among one rank of each host.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/casync/graph/task_graph.h"

namespace hipress {

/// Numbers of a partition's messages, so that a pair of ranks has no two of the same.
enum Hop : uint16_t {
  kToAggregate = 0,
  kFromAggregate = 1,
  kToHost = 2,
  kFromHost = 3,
};

struct Exchange {
  uint16_t partition = 0;
  std::vector<int> members;         ///< Ranks that take part.
  size_t position = 0;              ///< Of this rank among them.
  size_t owner = 0;                 ///< Position of the one whose share the partition is.
  Operand own;                      ///< What this rank contributes, and
  size_t depth = 0;                 ///< How many messages in a row members may need for that.
  std::vector<TaskIndex> ownReady;  ///< after which tasks it is there (none: from the start).

  size_t size() const { return members.size(); }
  /// The rank `steps` places behind `from`.
  int memberAfter(size_t from, size_t steps) const { return members[(from + steps) % members.size()]; }
};

/// Where the result is, on this rank.
struct Outcome {
  std::optional<MessageIndex> message;  ///< The bytes that all have; nothing: only in the output.
  TaskIndex ready = 0;                  ///< After it the message, or the output, is there.
};

/// Each adds its tasks for one partition to the graph, the decoding into the output included.
using AddExchange = Outcome (*)(TaskGraph& graph, const Exchange& exchange);

/// Parameter server with co-located aggregators: the owner aggregates.
Outcome addPs(TaskGraph& graph, const Exchange& exchange);
/// Reduction along the ring, which ends at the owner, then the result along the ring.
Outcome addRing(TaskGraph& graph, const Exchange& exchange);
/// Recursive halving and doubling: a binomial tree for each partition, with the owner at the root.
Outcome addButterfly(TaskGraph& graph, const Exchange& exchange);
/// Everybody's contribution to everybody.
Outcome addAllgather(TaskGraph& graph, const Exchange& exchange);

/// Every member's message to every member.
struct Gathered {
  std::vector<MessageIndex> messages;  ///< By member,
  std::vector<TaskIndex> ready;        ///< and the task after which it is there.
  std::vector<TaskIndex> sends;        ///< Of this rank's own message.
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
    // Each member starts with the one behind itself, so that they do not all send to the first member first.
    for (size_t steps = 1; steps < exchange.size(); ++steps) {
      const int peer = exchange.memberAfter(exchange.position, steps);
      gathered.sends.push_back(graph.send(message, peer, kToAggregate, {encode}));
    }
  }
  return gathered;
}

struct TopologyContext;
/// All ranks, on one level.
Exchange flatExchange(const TopologyContext& context, uint16_t partition);
/// The ranks of each host, in order; hosts in the order of their lowest rank.
std::vector<std::vector<int>> ranksByHost(const TopologyContext& context);
/// Ranks of a host among each other, then `between` among one rank of each host.
void addHierarchical(TaskGraph& graph, const TopologyContext& context,
                     const std::vector<std::vector<int>>& hosts, uint16_t partition, AddExchange between);

}  // namespace hipress
