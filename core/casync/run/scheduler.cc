// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/scheduler.h"

#include <exception>
#include <utility>

namespace hipress {

Scheduler::Scheduler(const EngineOptions& options, Transport& transport, AskRank0 ask, BufferPool& pool,
                     OperationEvents& events, const TaskTrace& trace)
    : pipelining_(options.pipelining),
      priorities_(options.priorities),
      events_(events),
      computation_(options, transport.rank(), pool, *this, trace),
      transfers_(transport, options.communication, std::move(ask), computation_, *this, trace) {}

void Scheduler::start(const OperationPointer& operation) {
  if (!pipelining_) {
    const MutexLock lock(mutex_);
    inOrder_.push_back(operation);
    if (inOrder_.size() > 1) return;
  }
  begin(operation);
}

/// An exception ends the job. The caller may be a thread that has ended another operation.
void Scheduler::begin(const OperationPointer& operation) {
  try {
    startRoots(operation);
  } catch (const Error& error) {
    events_.failed(error);
  } catch (const std::exception& error) {
    events_.failed(transportError("tensor '" + operation->tensor().spec().name +
                                  "' could not be started: " + error.what()));
  }
}

void Scheduler::compute(const OperationPointer& operation, std::function<void(Parallel&)> work) {
  computation_.compute(operation->tensor().spec().count,
                       priorities_ ? operation->tensor().spec().priority : 0, std::move(work));
}

void Scheduler::startRoots(const OperationPointer& operation) {
  computation_.prepare(operation);
  // Receives go first: the transport then writes arrived messages to their place without another copy.
  const auto& roots = operation->tensor().graph().roots();
  for (const TaskIndex root : roots) {
    if (operation->task(root).primitive == Primitive::kRecv) transfers_.receive(operation, root);
  }
  for (const TaskIndex root : roots) {
    if (operation->task(root).primitive != Primitive::kRecv) release(operation, root);
  }
}

void Scheduler::release(const OperationPointer& operation, TaskIndex index) {
  if (operation->finished()) return;
  const int priority = priorities_ ? operation->tensor().spec().priority : 0;
  switch (operation->task(index).primitive) {
    case Primitive::kSend:
      return transfers_.send(operation, index, priority);
    case Primitive::kRecv:
      return transfers_.receive(operation, index);
    case Primitive::kEncode:
    case Primitive::kMerge:
    case Primitive::kDecode:
      return computation_.run(operation, index, priority);
  }
}

/// Runs on lanes and on threads of the transport and of devices, which cannot handle exceptions. A task that
/// becomes ready here may find no memory.
void Scheduler::completed(const OperationPointer& operation, TaskIndex index) {
  try {
    advance(operation, index);
  } catch (const std::exception& error) {
    computation_.fail(*operation, operation->task(index), error);
  }
}

void Scheduler::advance(const OperationPointer& operation, TaskIndex index) {
  operation->complete(index);
  for (const TaskIndex successor : operation->task(index).successors) {
    if (Computation::isOrderedByDevice(*operation, index, successor)) continue;
    if (operation->isCleared(successor)) release(operation, successor);
  }
  if (!operation->endTask()) return;
  events_.done(operation);
  if (!pipelining_) startNext(*operation);
}

/// Without pipelining: starts the operation behind `ended`. If a conflict ended an operation in the queue,
/// the operation only leaves the queue, so that no operation waits behind it.
void Scheduler::startNext(const Operation& ended) {
  OperationPointer next;
  {
    const MutexLock lock(mutex_);
    const bool ran = !inOrder_.empty() && inOrder_.front().get() == &ended;
    std::erase_if(inOrder_, [&ended](const OperationPointer& each) { return each.get() == &ended; });
    if (ran && !inOrder_.empty()) next = inOrder_.front();
  }
  if (next) begin(next);
}

void Scheduler::stop() {
  computation_.stop();
  transfers_.stop();
  std::deque<OperationPointer> waiting;
  const MutexLock lock(mutex_);
  waiting.swap(inOrder_);
}

}  // namespace hipress
