// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/operation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/casync/compute/device_values.h"
#include "core/casync/run/group_step.h"
#include "core/casync/run/linked_step.h"

namespace hipress {

Operation::Operation(std::shared_ptr<const Tensor> planned, const std::shared_ptr<DeviceQueue>& queue)
    : values_(std::move(planned)),
      pending_(tensor().graph().tasks().size()),
      complete_(pending_.size()),
      startedNs_(pending_.size()) {
  if (queue) values_.device = std::make_unique<DeviceValues>(queue, tensor());
}

void Operation::arm(OperationHandle handle, uint32_t stepNumber, Submission&& submission) {
  values_.arm(stepNumber);
  values_.input = static_cast<const std::byte*>(submission.input);
  values_.output = static_cast<std::byte*>(submission.output);
  values_.ready = submission.ready;
  values_.updates = submission.updates;
  values_.verdict = std::move(submission.verdict);
  isInner_ = submission.inner;
  handle_ = handle;
  keepAlive_ = std::move(submission.keepAlive);
  onDone_ = std::move(submission.onDone);
  usersDone_.store(onDone_ == nullptr ? 0 : kWaited, std::memory_order_relaxed);
  submitted_ = Clock::now();
  const auto& tasks = tensor().graph().tasks();
  for (size_t index = 0; index < tasks.size(); ++index) {
    pending_[index].store(tasks[index].dependencies, std::memory_order_relaxed);
    complete_[index].store(false, std::memory_order_relaxed);
  }
  remaining_.store(static_cast<uint32_t>(tasks.size()), std::memory_order_relaxed);
  const MutexLock lock(mutex_);
  failure_ = nullptr;
  finished_.store(false, std::memory_order_release);
}

void Operation::complete(TaskIndex index) {
  complete_[index].store(true, std::memory_order_relaxed);
  values_.endReading(task(index));
}

bool Operation::endTask() {
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  values_.release();
  release(kTasks);
  return true;
}

/// The last of the two users releases the caller's memory.
void Operation::release(User user) {
  const uint8_t others = (kTasks | kWaited) & ~user;
  if (usersDone_.fetch_or(user, std::memory_order_acq_rel) == others) keepAlive_.reset();
}

bool Operation::finish(const Failure& failure) {
  {
    const MutexLock lock(mutex_);
    if (finished_.load(std::memory_order_relaxed)) return false;
    failure_ = failure;
    finished_.store(true, std::memory_order_release);
  }
  done_.notify_all();
  return true;
}

void Operation::waitUntil(Clock::time_point until) {
  MutexLock lock(mutex_);
  while (!finished_.load(std::memory_order_relaxed) && done_.waitUntil(lock, until)) {
  }
}

Failure Operation::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

void Operation::endInGroup(bool failed, bool noValues) {
  if (!failed) values_.endStates();
  values_.absent.store(noValues, std::memory_order_relaxed);
  release(kTasks);
}

bool Operation::isMissing(TaskIndex index) const {
  return task(index).primitive == Primitive::kRecv && !isComplete(index);
}

Wait Operation::wait() const {
  Wait wait;
  wait.name = tensor().spec().name;
  wait.tensor = number();
  wait.step = values_.step;
  wait.unnumbered = wait.tensor == 0;
  if (wait.unnumbered) return wait;
  if (const auto group = group_.lock()) {
    wait.missing = group->missing();
    wait.group = group->name();
  }
  wait.device = workOfDevice();
  const auto& tasks = tensor().graph().tasks();
  int nearest = std::numeric_limits<int>::max();
  for (TaskIndex index = 0; index < tasks.size(); ++index) {
    if (isMissing(index)) nearest = std::min<int>(nearest, tasks[index].depth);
    const bool unsent = tasks[index].primitive == Primitive::kSend && !isComplete(index);
    if (unsent && std::ranges::find(wait.unsent, tasks[index].peer) == wait.unsent.end())
      wait.unsent.push_back(tasks[index].peer);
  }
  for (TaskIndex index = 0; index < tasks.size(); ++index) {
    if (isMissing(index) && tasks[index].depth == nearest) wait.late.insert(tasks[index].peer);
  }
  if (!wait.late.empty()) wait.depth = nearest;
  return wait;
}

std::shared_ptr<const AwaitedOperation> Operation::carrier() const {
  if (const auto linked = linked_.lock()) return linked->carrier();
  const auto group = group_.lock();
  return group == nullptr ? nullptr : group->carrier();
}

/// A task that the device has received and not done, for messages; empty if there is no such task.
std::string Operation::workOfDevice() const {
  if (values_.device == nullptr) return {};
  const auto& tasks = tensor().graph().tasks();
  for (TaskIndex index = 0; index < tasks.size(); ++index) {
    const Primitive primitive = tasks[index].primitive;
    if (primitive == Primitive::kSend || primitive == Primitive::kRecv) continue;
    if (pending_[index].load(std::memory_order_relaxed) > 0 || isComplete(index)) continue;
    return "the " + std::string(primitiveName(primitive)) + " of partition " +
           std::to_string(tasks[index].partition) + " on its device " +
           values_.device->queue->device().name();
  }
  return {};
}

}  // namespace hipress
