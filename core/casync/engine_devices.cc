// SPDX-License-Identifier: Apache-2.0
//
// Tensors on a device: their tasks go to its streams as soon as everything before them is there or on the
// same stream; only what must be sent waits for the device.
#include <exception>
#include <string>

#include "core/casync/device_values.h"
#include "core/casync/engine.h"
#include "core/casync/operation_values.h"

namespace hipress {
namespace {

/// How long shutting down waits for a device: work that is under way takes much less, a device that hangs
/// would take for ever.
constexpr Milliseconds kDrain{10000};

}  // namespace

/// nullptr for the host's. Throws Unsupported if the device cannot compute what the tensor needs.
std::shared_ptr<DeviceQueue> Engine::deviceQueueFor(const Tensor& tensor) {
  const auto& device = tensor.spec.device;
  if (device == nullptr) return nullptr;
  if (tensor.compressed()) {
    device->codec(tensor.codec);
    device->codec(tensor.aggregateCodec);
  }
  const std::lock_guard lock(mutex_);
  for (const auto& queue : deviceQueues_) {
    if (&queue->device() == device.get()) return queue;
  }
  deviceQueues_.push_back(std::make_shared<DeviceQueue>(device));
  return deviceQueues_.back();
}

DeviceQueue::Statistics Engine::deviceStatistics() const {
  DeviceQueue::Statistics all;
  const std::lock_guard lock(mutex_);
  for (const auto& queue : deviceQueues_) {
    const DeviceQueue::Statistics one = queue->statistics();
    all.values += one.values;
    all.states += one.states;
    all.scratch += one.scratch;
    all.staging += one.staging;
  }
  return all;
}

void Engine::enqueueCompute(const OperationPointer& operation, TaskIndex index) {
  if (operation->finished()) return;
  const Task& task = operation->tensor->graph.tasks()[index];
  DeviceStream& stream = DeviceExecutor::streamOf(*operation, task);
  if (trace() != nullptr) operation->startedNs[index] = TraceRecorder::now();
  bool working = false;
  try {
    working = deviceExecutor_.enqueue(*operation, index);
  } catch (const std::exception& error) {
    // Part of it may be on the stream: the operation's memory stays until that is done.
    stream.whenDone([operation](const Failure&) {});
    return computeFailed(*operation, task, error);
  }
  // Asked for before successors are on the stream, too: what is sent shall not wait for them.
  if (working) {
    stream.whenDone(
        [this, operation, index](const Failure& failure) { onDeviceDone(operation, index, failure); });
  }
  for (const TaskIndex successor : task.successors) {
    if (isOrderedByDevice(*operation, index, successor) &&
        operation->pending[successor].fetch_sub(1, std::memory_order_acq_rel) == 1)
      enqueueCompute(operation, successor);
  }
  if (!working) completeTask(operation, index);
}

void Engine::onDeviceDone(const OperationPointer& operation, TaskIndex index, const Failure& failure) {
  if (operation->finished()) return;
  const Task& task = operation->tensor->graph.tasks()[index];
  try {
    if (failure) {
      throw Error(failure->kind(),
                  "rank " + std::to_string(rank_) + ": " + inContext(*failure, *operation, task, -1).what());
    }
    DeviceExecutor::finish(*operation, index);
  } catch (const std::exception& error) {
    return computeFailed(*operation, task, error);
  }
  const size_t elements = operation->tensor->partitions[task.partition].range.count;
  const auto stream = operation->device->queue->streamIndex(*operation->tensor, task.partition);
  record(*operation, task, TraceTrack::kCompute, options_.computeThreads + 1 + static_cast<int>(stream),
         operation->startedNs[index], elements * elementSize(operation->tensor->spec.dtype));
  completeTask(operation, index);
}

/// What a device has been given and has not done, for messages; empty if there is nothing.
std::string Engine::workOfDevice(const Operation& operation) {
  if (operation.device == nullptr) return {};
  const auto& tasks = operation.tensor->graph.tasks();
  for (size_t index = 0; index < tasks.size(); ++index) {
    const Primitive primitive = tasks[index].primitive;
    if (primitive == Primitive::kSend || primitive == Primitive::kRecv) continue;
    if (operation.pending[index].load(std::memory_order_relaxed) > 0 ||
        operation.complete[index].load(std::memory_order_relaxed))
      continue;
    return "the " + std::string(primitiveName(primitive)) + " of partition " +
           std::to_string(tasks[index].partition) + " on its device " +
           operation.device->queue->device().name();
  }
  return {};
}

/// After the transport, which puts no more on streams then. Operations that a device does not get done with
/// are kept by what waits for it.
void Engine::closeDevices() {
  std::vector<std::shared_ptr<DeviceQueue>> queues;
  {
    const std::lock_guard lock(mutex_);
    queues.swap(deviceQueues_);
  }
  for (const auto& queue : queues) queue->close(kDrain);
}

}  // namespace hipress
