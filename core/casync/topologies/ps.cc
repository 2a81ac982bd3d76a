// SPDX-License-Identifier: Apache-2.0
//
// CaSync-PS (SOSP'21, §3.1 and §6.1): every rank is a worker and, for its share of the partitions, the
// aggregator.
//   worker:      encode → send → recv → decode
//   aggregator:  recv from all → merge in rank order (its own gradient unencoded) → encode → send to all →
//   decode
// The aggregator decodes what it sends, so that every rank ends with the same bytes.
#include "core/casync/topology.h"

namespace hipress {
namespace {

constexpr uint16_t kPush = 0;
constexpr uint16_t kPull = 1;

void addWorker(TaskGraph& graph, uint16_t partition, int aggregator) {
  const MessageIndex gradient = graph.addMessage(partition);
  const TaskIndex encode = graph.encode(gradient, EncodeSource::kInput, {});
  const TaskIndex send = graph.send(gradient, aggregator, kPush, {encode});
  const MessageIndex aggregate = graph.addMessage(partition);
  const TaskIndex recv = graph.recv(aggregate, aggregator, kPull);
  // Decoding overwrites the gradient that the send may still read.
  graph.decode(aggregate, {recv, send});
}

void addAggregator(TaskGraph& graph, uint16_t partition, const TopologyContext& context) {
  std::vector<MessageIndex> contributions;
  std::vector<TaskIndex> received;
  for (int rank = 0; rank < context.worldSize; ++rank) {
    if (rank == context.rank) {
      contributions.push_back(kLocalContribution);
      continue;
    }
    contributions.push_back(graph.addMessage(partition));
    received.push_back(graph.recv(contributions.back(), rank, kPush));
  }
  const TaskIndex merge = graph.merge(partition, contributions, received);
  const MessageIndex aggregate = graph.addMessage(partition);
  const TaskIndex encode = graph.encode(aggregate, EncodeSource::kAggregate, {merge});
  // Starting behind itself, so that aggregators that finish together do not all send to rank 0 first.
  for (int offset = 1; offset < context.worldSize; ++offset) {
    graph.send(aggregate, (context.rank + offset) % context.worldSize, kPull, {encode});
  }
  graph.decode(aggregate, {encode});
}

}  // namespace

TaskGraph buildPs(const TopologyContext& context) {
  TaskGraph graph;
  for (uint16_t partition = 0; partition < context.partitions; ++partition) {
    const int aggregator = (context.firstRank + partition) % context.worldSize;
    if (aggregator == context.rank) {
      addAggregator(graph, partition, context);
    } else {
      addWorker(graph, partition, aggregator);
    }
  }
  return graph;
}

}  // namespace hipress
