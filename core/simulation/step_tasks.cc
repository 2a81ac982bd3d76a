// SPDX-License-Identifier: Apache-2.0
//
// The order of tasks, and the way of messages to their receivers.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/codec/wire/wire_header.h"
#include "core/simulation/step_simulation.h"
#include "core/transport/transport.h"

namespace hipress {
namespace {

constexpr int kBeforeAll = std::numeric_limits<int>::max();

}  // namespace

void StepSimulation::startTensor(uint32_t thread, uint32_t rank, uint32_t number) {
  const Tensor& tensor = tensors_[number];
  const uint32_t first = symmetric_ ? 0 : rank;
  const uint32_t last = symmetric_ ? tensor.instances : rank + 1;
  for (uint32_t index = first; index < last; ++index) {
    const uint32_t instance = tensor.firstInstance + index;
    for (const TaskIndex root : instances_[instance].graph->roots) {
      if (instances_[instance].graph->tasks[root].primitive == Primitive::kRecv) {
        clear(thread, instance, root);
      } else {
        release(thread, instance, root);
      }
    }
  }
}

/// One of the events for which the task waits has happened.
void StepSimulation::clear(uint32_t thread, uint32_t instance, TaskIndex task) {
  if (--pending_[instances_[instance].firstPending + task] == 0) release(thread, instance, task);
}

void StepSimulation::release(uint32_t thread, uint32_t number, TaskIndex index) {
  const Instance& instance = instances_[number];
  const SimulatedTask& task = instance.graph->tasks[index];
  if (task.primitive == Primitive::kSend) return send(number, index);
  if (task.primitive == Primitive::kRecv) return complete(thread, number, index);
  const Tensor& tensor = tensors_[instance.tensor];
  const bool packs = task.primitive == Primitive::kEncode && tensor.packsOwn && task.own;
  const bool passesOn = task.primitive != Primitive::kMerge && (tensor.raw || task.plain) && !packs;
  if (passesOn) return complete(thread, number, index);
  if (tensor.elements <= static_cast<double>(description_.settings.inlineElements)) {
    threads_[thread].ready.push_back({JobKind::kTask, number, index});
    return beginNext(thread);
  }
  enqueue(thread, instance.rank, task.encodesSum ? kBeforeAll : priorityOf(instance.tensor),
          {JobKind::kTask, number, index});
}

/// For a lane of the rank. `thread`: the one that enqueues it, and looks at the queue next if it is a lane.
void StepSimulation::enqueue(uint32_t thread, uint32_t rank, int priority, const Queued& queued) {
  queued_[rank].push({priority, sequence_++, queued});
  for (uint32_t place = 2; place < threadsPerRank_; ++place) {
    const uint32_t lane = threadOf(rank, place);
    if (!threads_[lane].busy && lane != thread) return beginNext(lane);
  }
}

void StepSimulation::complete(uint32_t thread, uint32_t number, TaskIndex index) {
  Instance& instance = instances_[number];
  const RankGraph& graph = *instance.graph;
  const uint32_t end = graph.tasks[index + 1].firstSuccessor;
  for (uint32_t next = graph.tasks[index].firstSuccessor; next < end; ++next)
    clear(thread, number, graph.successors[next]);
  if (--instance.unfinished > 0) return;
  if (description_.gradients[instance.tensor].members < 2) return endInstance(thread, number);
  threads_[thread].ready.push_back({JobKind::kCopyBack, number});
  beginNext(thread);
}

void StepSimulation::send(uint32_t number, TaskIndex index) {
  const Instance& instance = instances_[number];
  const SimulatedTask& task = instance.graph->tasks[index];
  const Tensor& tensor = tensors_[instance.tensor];
  LinkQueue::Message message;
  message.name = uint64_t{number} << 32 | index;
  message.share = shareOf(instance, index);
  message.payload = task.plain ? tensor.partitionBytes : task.own ? tensor.ownBytes : tensor.encodedBytes;
  if (task.lent && !isLentWhole(tensor)) message.payload = kReferencePayloadBytes;
  const uint32_t connection = network_->connection(instance.rank, task.peer);
  RankOutcome& outcome = outcome_.ranks[instance.rank];
  (network_->crossesNetwork(connection) ? outcome.sentBytes : outcome.localBytes) += message.bytes();
  outcome.messages += message.share;
  connections_[connection].queue.push(priorityOf(instance.tensor), message, linkTime());
  dispatch(connection);
}

double StepSimulation::arrivingShareOf(const LinkQueue::Message& message) const {
  if (!symmetric_) return 1;
  const auto [number, task] = senderOf(message);
  const Instance& instance = instances_[number];
  return shareOf(instance, instance.graph->tasks[task].arrivesAs);
}

/// Gives the transport the flights that may go.
void StepSimulation::dispatch(uint32_t number) {
  Connection& connection = connections_[number];
  for (;;) {
    if (freeFlights_.empty()) {
      freeFlights_.push_back(static_cast<uint32_t>(flights_.size()));
      flights_.emplace_back();
    }
    const uint32_t index = freeFlights_.back();
    Flight& flight = flights_[index];
    if (!connection.queue.next(linkTime(), flight)) break;
    freeFlights_.pop_back();
    flight.connection = number;
    flight.arriving = flight.whole = 0;
    double times = 0;
    for (const LinkQueue::Message& message : flight.messages) {
      const double bytes = message.payload + static_cast<double>(kMessageHeaderBytes);
      flight.arriving += arrivingShareOf(message) * bytes;
      flight.whole = std::max(flight.whole, bytes);
      const Instance& instance = instances_[senderOf(message).instance];
      times += message.bytes() * description_.gradients[instance.tensor].messageTimes;
    }
    flight.times = flight.bytes > 0 ? times / flight.bytes : 1;
    const double most = std::max(flight.bytes, flight.arriving);
    flight.chunks = static_cast<size_t>(std::max(1.0, std::ceil(most / network_->chunkBytes(number))));
    connection.flights.push_back(index);
  }
  if (connection.queue.hold() == LinkQueue::Hold::kGather && !connection.lingers) {
    connection.lingers = true;
    events_.push(connection.queue.due().time_since_epoch().count(), EventKind::kLinger, number);
  }
  offer(number);
}

/// Makes the transport's thread send, if a flight waits and the socket has room.
void StepSimulation::offer(uint32_t number) {
  Connection& connection = connections_[number];
  if (connection.asks || connection.flights.empty() || !network_->hasRoom(number)) return;
  connection.asks = true;
  const uint32_t thread = transportThread(number / static_cast<uint32_t>(description_.cluster.world()));
  threads_[thread].waiting.push_back({JobKind::kSend, number, 0});
  beginNext(thread);
}

/// Processor seconds for the next chunk.
double StepSimulation::sendSeconds(uint32_t number) const {
  const Connection& connection = connections_[number];
  const Flight& flight = flights_[connection.flights.front()];
  const LinkDescription& link = network_->link(number);
  double seconds = flight.times * flight.bytes / static_cast<double>(flight.chunks) * link.sendByte;
  if (connection.chunksPut > 0) return seconds;
  seconds += flight.times * flight.share * link.sendMessage;
  double messages = 0;
  for (const LinkQueue::Message& message : flight.messages) messages += message.share;
  if (flight.messages.size() > 1) seconds += messages * description_.engine.bundledMessage;
  return seconds;
}

void StepSimulation::putChunk(uint32_t number) {
  Connection& connection = connections_[number];
  const uint32_t index = connection.flights.front();
  Flight& flight = flights_[index];
  Chunk chunk;
  chunk.connection = number;
  chunk.flight = index;
  chunk.bytes = flight.bytes / static_cast<double>(flight.chunks);
  chunk.arriving = flight.arriving / static_cast<double>(flight.chunks);
  chunk.first = connection.chunksPut == 0;
  chunk.last = ++connection.chunksPut == flight.chunks;
  if (chunk.first) {
    flight.began = now_;
    outcome_.ranks[number / static_cast<uint32_t>(description_.cluster.world())].flights += flight.share;
  }
  network_->put(chunk, now_);
  connection.asks = false;
  if (chunk.last) {
    connection.flights.pop_front();
    connection.chunksPut = 0;
    // A flight that fits into the socket is out when it is there. A longer one is out when it has arrived.
    if (flight.chunks == 1) flightSent(index);
  }
  offer(number);
}

void StepSimulation::flightSent(uint32_t index) {
  const uint32_t number = flights_[index].connection;
  connections_[number].queue.sent(flights_[index]);
  dispatch(number);
  const uint32_t thread = transportThread(number / static_cast<uint32_t>(description_.cluster.world()));
  for (size_t message = 0; message < flights_[index].messages.size(); ++message) {
    const auto [instance, task] = senderOf(flights_[index].messages[message]);
    complete(thread, instance, task);
  }
}

uint32_t StepSimulation::receiverOf(const Flight& flight) const {
  if (symmetric_) return 0;
  return flight.connection % static_cast<uint32_t>(description_.cluster.world());
}

double StepSimulation::receiveSeconds(const Chunk& chunk) const {
  const Flight& flight = flights_[chunk.flight];
  const LinkDescription& link = network_->link(chunk.connection);
  double seconds = flight.times * chunk.arriving * link.receiveByte;
  if (!chunk.last) return seconds;
  double messages = 0;
  for (const LinkQueue::Message& message : flight.messages) messages += arrivingShareOf(message);
  seconds += flight.times * std::min(1.0, messages) * link.receiveMessage;
  if (flight.messages.size() > 1) seconds += messages * description_.engine.bundledMessage;
  return seconds;
}

void StepSimulation::received(const Chunk& chunk) {
  if (!chunk.last) return;
  const Flight& flight = flights_[chunk.flight];
  if (flight.chunks > 1) flightSent(chunk.flight);
  // A message that counts for a share of one still takes the time of a whole message.
  const double whole = flights_[chunk.flight].whole;
  const bool counted = flights_[chunk.flight].arriving < whole || flights_[chunk.flight].bytes < whole;
  const double ends = flights_[chunk.flight].began + network_->transfer(chunk.connection, whole);
  if (symmetric_ && counted && ends > now_) return events_.push(ends, EventKind::kDelivery, chunk.flight);
  deliver(chunk.flight);
}

void StepSimulation::deliver(uint32_t index) {
  const uint32_t rank = receiverOf(flights_[index]);
  const uint32_t thread = transportThread(rank);
  for (size_t message = 0; message < flights_[index].messages.size(); ++message) {
    const auto [sender, sent] = senderOf(flights_[index].messages[message]);
    const Instance& from = instances_[sender];
    const TaskIndex task = from.graph->tasks[sent].arrivesAs;
    const uint32_t to = symmetric_ ? sender : tensors_[from.tensor].firstInstance + rank;
    clear(thread, to, task);
  }
  flights_[index].messages.clear();
  freeFlights_.push_back(index);
}

}  // namespace hipress
