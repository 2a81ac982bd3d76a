// SPDX-License-Identifier: Apache-2.0
//
// How an operation's task graph runs: completing a task clears its successors; those with nothing left to
// wait for go to Q_comp or Q_commu.
#include <limits>
#include <new>
#include <string>
#include <utility>

#include "core/casync/engine.h"

namespace hipress {
namespace {

constexpr int kBeforeAll = std::numeric_limits<int>::max();

/// Sums are the largest that is staged, and each that waits is one more: whoever has made one encodes it
/// next.
bool encodesSum(const Task& task) {
  return task.primitive == Primitive::kEncode && task.from.front().kind == Operand::Kind::kSum;
}

}  // namespace

void Engine::start(const OperationPointer& operation) {
  if (operation->device) DeviceExecutor::begin(operation);
  // Receives first: what peers have sent already can then be taken without another copy.
  const auto& tasks = operation->tensor->graph.tasks();
  const auto& roots = operation->tensor->graph.roots();
  for (const TaskIndex root : roots) {
    if (tasks[root].primitive == Primitive::kRecv) startRecv(operation, root);
  }
  for (const TaskIndex root : roots) {
    if (tasks[root].primitive != Primitive::kRecv) release(operation, root);
  }
}

/// Without pipelining: begins with the operation behind the one that ended.
void Engine::startNext(const Operation& ended) {
  OperationPointer next;
  {
    const std::lock_guard lock(mutex_);
    if (inOrder_.empty() || inOrder_.front().get() != &ended) return;
    inOrder_.pop_front();
    if (!inOrder_.empty()) next = inOrder_.front();
  }
  if (next) start(next);
}

int Engine::priorityOf(const Operation& operation) const {
  return options_.priorities ? operation.tensor->spec.priority : 0;
}

void Engine::release(const OperationPointer& operation, TaskIndex index) {
  const Task& task = operation->tensor->graph.tasks()[index];
  if (operation->finished()) return;
  if (task.primitive == Primitive::kSend) return startSend(operation, index);
  if (task.primitive == Primitive::kRecv) return startRecv(operation, index);
  if (Executor::work(*operation, task) <= options_.inlineElements) return runCompute(operation, index, -1);
  compute_.push(encodesSum(task) ? kBeforeAll : priorityOf(*operation),
                [this, operation, index](int lane) { runCompute(operation, index, lane); });
}

void Engine::runCompute(const OperationPointer& operation, TaskIndex index, int lane) {
  if (operation->finished()) return;
  if (operation->device) return enqueueCompute(operation, index);
  const Task& task = operation->tensor->graph.tasks()[index];
  const int64_t startNs = trace() != nullptr ? TraceRecorder::now() : 0;
  try {
    executor_.run(*operation, task);
  } catch (const std::exception& error) {
    return computeFailed(*operation, task, error);
  }
  // A task that only passed memory on did nothing worth a span.
  if (trace() != nullptr && Executor::work(*operation, task) > 0) {
    const size_t elements = operation->tensor->partitions[task.partition].range.count;
    record(*operation, task, TraceTrack::kCompute, lane + 1, startNs,
           elements * elementSize(operation->tensor->spec.dtype));
  }
  completeTask(operation, index);
}

void Engine::computeFailed(const Operation& operation, const Task& task, const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return failWith(*known, true);
  failWith(Error(ErrorKind::kTransport, std::string(primitiveName(task.primitive)) + " of tensor '" +
                                            operation.tensor->spec.name + "' failed: " + error.what()),
           true);
}

void Engine::startSend(const OperationPointer& operation, TaskIndex index) {
  const Task& task = operation->tensor->graph.tasks()[index];
  const MessageState& message = operation->messages[task.message];
  SendRequest request;
  request.peer = task.peer;
  request.tag = {operation->tensor->id, operation->step, task.partition, task.hop};
  request.header = packHeader(message.header);
  request.payload = message.payload;
  const size_t bytes = message.payload.size();
  request.onSent = [this, operation, index, bytes](const Failure& failure) {
    if (failure) return failTransfer(operation, index, failure);
    record(*operation, operation->tensor->graph.tasks()[index], TraceTrack::kSend, 0,
           operation->startedNs[index], bytes);
    completeTask(operation, index);
  };
  communication_.push(priorityOf(*operation), std::move(request), [this, operation, index] {
    if (trace() != nullptr) operation->startedNs[index] = TraceRecorder::now();
  });
}

void Engine::startRecv(const OperationPointer& operation, TaskIndex index) {
  const Task& task = operation->tensor->graph.tasks()[index];
  RecvRequest request;
  request.peer = task.peer;
  request.tag = {operation->tensor->id, operation->step, task.partition, task.hop};
  request.onHeader = [this, operation, index](const MessageHeader& header, size_t payloadBytes) {
    if (trace() != nullptr) operation->startedNs[index] = TraceRecorder::now();
    try {
      return executor_.accept(*operation, operation->tensor->graph.tasks()[index], header, payloadBytes);
    } catch (const std::bad_alloc&) {  // transports pass on Error only
      throw transportError("tensor '" + operation->tensor->spec.name + "': no memory to receive " +
                           std::to_string(payloadBytes) + " bytes");
    }
  };
  request.onReceived = [this, operation, index](const Failure& failure) {
    if (failure) return failTransfer(operation, index, failure);
    const Task& recv = operation->tensor->graph.tasks()[index];
    record(*operation, recv, TraceTrack::kReceive, 0, operation->startedNs[index],
           operation->messages[recv.message].payload.size());
    completeTask(operation, index);
  };
  transport_->recv(std::move(request));
}

void Engine::completeTask(const OperationPointer& operation, TaskIndex index) {
  const Task& task = operation->tensor->graph.tasks()[index];
  operation->complete[index].store(true, std::memory_order_relaxed);
  operation->endReading(task);
  for (const TaskIndex successor : task.successors) {
    if (operation->device && isOrderedByDevice(*operation, index, successor)) continue;
    if (operation->pending[successor].fetch_sub(1, std::memory_order_acq_rel) == 1)
      release(operation, successor);
  }
  if (operation->remaining.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    if (operation->device) operation->device->release();
    operation->keepAlive.reset();
    end(operation, nullptr);
    if (!options_.pipelining) startNext(*operation);
  }
}

void Engine::failTransfer(const OperationPointer& operation, TaskIndex index, const Failure& failure) {
  if (operation->finished()) return;
  if (failure->kind() != ErrorKind::kPeerLost) return failWith(*failure, true);
  onDeparture(operation->tensor->graph.tasks()[index].peer, failure->what(), false);
}

void Engine::record(const Operation& operation, const Task& task, TraceTrack track, int lane, int64_t startNs,
                    size_t bytes) {
  TraceRecorder* const recorder = trace();
  if (recorder == nullptr) return;
  TraceSpan span;
  span.name = primitiveName(task.primitive);
  span.track = track;
  span.lane = lane;
  span.startNs = startNs;
  span.endNs = TraceRecorder::now();
  span.tensor = recorder->intern(operation.tensor->spec.name);
  span.partition = task.partition;
  span.peer = task.peer;
  span.step = operation.step;
  span.bytes = bytes;
  recorder->record(span);
}

}  // namespace hipress
