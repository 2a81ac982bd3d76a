// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/computation.h"

#include <limits>
#include <new>
#include <string>
#include <utility>

#include "core/casync/compute/device_values.h"
#include "core/casync/compute/operation_values.h"
#include "core/device/keep_until_done.h"

namespace hipress {
namespace {

constexpr int kBeforeAll = std::numeric_limits<int>::max();

/// Whether the task encodes a sum. Sums are the largest staging buffers, and each waiting encode keeps one:
/// the compute queue runs these tasks before all others.
bool encodesSum(const Task& task) {
  return task.primitive == Primitive::kEncode && task.from.front().kind == Operand::Kind::kSum;
}

}  // namespace

Computation::Computation(const EngineOptions& options, int rank, BufferPool& pool, TaskEvents& events,
                         const TaskTrace& trace)
    : rank_(rank),
      inlineElements_(options.inlineElements),
      lanes_(options.computeThreads),
      events_(events),
      trace_(trace),
      queue_(options.computeThreads,
             [&events](const std::exception& error) {
               events.failed(transportError(std::string("a computation failed: ") + error.what()));
             }),
      executor_(pool, queue_, options.seed, rank, options.neighbours) {}

void Computation::prepare(const OperationPointer& operation) {
  try {
    executor_.begin({operation, &operation->values()});
  } catch (const std::bad_alloc&) {
    throw transportError("tensor '" + operation->tensor().spec().name + "': no memory to scale " +
                         std::to_string(operation->tensor().inputBytes()) + " bytes");
  }
}

void Computation::run(const OperationPointer& operation, TaskIndex index, int priority) {
  const Task& task = operation->task(index);
  if (Executor::work(operation->values(), task) <= inlineElements_) return runOnHost(operation, index, -1);
  queue_.push(encodesSum(task) ? kBeforeAll : priority,
              [this, operation, index](int lane) { runOnHost(operation, index, lane); });
}

void Computation::compute(size_t elements, int priority, std::function<void(Parallel&)> work) {
  if (elements <= inlineElements_) return work(queue_);
  queue_.push(priority, [this, work = std::move(work)](int) { work(queue_); });
}

void Computation::runOnHost(const OperationPointer& operation, TaskIndex index, int lane) {
  if (operation->finished()) return;
  if (operation->values().device) return runOnDevice(operation, index);
  const Task& task = operation->task(index);
  const int64_t startNs = trace_.now();
  try {
    executor_.run(operation->values(), task);
    // A task that only passed memory on took no time, so the trace gets no span.
    if (startNs != 0 && Executor::work(operation->values(), task) > 0)
      record(*operation, task, lane + 1, startNs);
  } catch (const std::exception& error) {
    return fail(*operation, task, error);
  }
  events_.completed(operation, index);
}

void Computation::runOnDevice(const OperationPointer& operation, TaskIndex index) {
  if (operation->finished()) return;
  const Task& task = operation->task(index);
  DeviceStream& stream = Executor::streamOf(operation->values(), task);
  operation->noteStart(index, trace_.now());
  bool working = false;
  try {
    working = executor_.enqueue(operation->values(), index);
    // The mark comes before the successors enter the stream: a message of this task must not wait for them.
    if (working) {
      stream.whenDone(
          [this, operation, index](const Failure& failure) { onDeviceDone(operation, index, failure); });
    }
  } catch (const std::exception& error) {
    // Part of the task may be on the stream: the operation's memory stays until that part is done.
    keepUntilDone(stream, operation);
    return fail(*operation, task, error);
  }
  for (const TaskIndex successor : task.successors) {
    if (isOrderedByDevice(*operation, index, successor) && operation->isCleared(successor))
      runOnDevice(operation, successor);
  }
  if (!working) events_.completed(operation, index);
}

void Computation::onDeviceDone(const OperationPointer& operation, TaskIndex index, const Failure& failure) {
  if (operation->finished()) return;
  const Task& task = operation->task(index);
  try {
    if (failure) {
      throw Error(failure->kind(), "rank " + std::to_string(rank_) + ": " +
                                       inContext(*failure, operation->values(), task, -1).what());
    }
    executor_.finish(operation->values(), index);
    const auto stream = operation->values().device->queue->streamIndex(operation->tensor(), task.partition);
    record(*operation, task, lanes_ + 1 + static_cast<int>(stream), operation->started(index));
  } catch (const std::exception& error) {
    return fail(*operation, task, error);
  }
  events_.completed(operation, index);
}

bool Computation::isOrderedByDevice(const Operation& operation, TaskIndex task, TaskIndex next) {
  return operation.values().device != nullptr && hipress::isOrderedByDevice(operation.values(), task, next);
}

std::span<std::byte> Computation::accept(Operation& operation, const Task& recv, const MessageHeader& header,
                                         size_t payloadBytes) {
  try {
    return executor_.accept(operation.values(), recv, header, payloadBytes);
  } catch (const std::bad_alloc&) {
    throw transportError("tensor '" + operation.tensor().spec().name + "': no memory to receive " +
                         std::to_string(payloadBytes) + " bytes");
  }
}

void Computation::checkReceived(const Operation& operation, const Task& recv) const {
  executor_.checkReceived(operation.values(), recv);
}

void Computation::record(const Operation& operation, const Task& task, int lane, int64_t startNs) const {
  const size_t elements = operation.tensor().partitions()[task.partition].range.count;
  trace_.record(operation, task, TraceTrack::kCompute, lane, startNs,
                elements * elementSize(operation.tensor().spec().dtype));
}

void Computation::fail(const Operation& operation, const Task& task, const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return events_.failed(*known);
  events_.failed({ErrorKind::kTransport, std::string(primitiveName(task.primitive)) + " of tensor '" +
                                             operation.tensor().spec().name + "' failed: " + error.what()});
}

}  // namespace hipress
