// SPDX-License-Identifier: Apache-2.0
//
// One synchronisation of one tensor in flight: the progress of its task graph, and its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/compute/step_values.h"
#include "core/casync/fail/operations_in_flight.h"
#include "core/casync/graph/tensor.h"
#include "core/transport/transport.h"

namespace hipress {

class DeviceQueue;
class GroupStep;
class LinkedStep;

/// An operation in flight; see Engine::submit().
using OperationHandle = uint64_t;
/// How an operation ended, nullptr: well; and whether no rank had values, so that the output was not written.
using OnDone = std::function<void(const Failure& failure, bool absent)>;

/// The values of one step.
struct Submission {
  /// Tensor::inputBytes(), unchanged until completion; nullptr: this rank has no values in this step.
  const void* input = nullptr;
  void* output = nullptr;  ///< Tensor::outputBytes(); may be `input`. Undefined until completion.
  /// On a device: an event of the device's kind, which keepAlive owns, after which input and output are
  /// usable; nullptr: they are.
  void* ready = nullptr;
  /// Released when no thread and no network touches the two any more, and no caller waits: on the caller's
  /// thread in the end, as giving up a Python object would have the network wait for Python's lock.
  std::shared_ptr<void> keepAlive;
  /// updatesInMessage() of the number of times that the caller has updated the tensor's variable with earlier
  /// results; 0: it does not count. Two ranks with different numbers are a Mismatch.
  uint16_t updates = 0;
  /// If given, it is called once when the operation has ended, on the thread that ended it, and no caller may
  /// wait() for or poll() the operation. It must not block, throw, or shut the engine down.
  OnDone onDone;
};

class Operation final : public AwaitedOperation {
 public:
  /// `queue`: of the tensor's device; nullptr: its values are on the host.
  Operation(std::shared_ptr<const Tensor> planned, const std::shared_ptr<DeviceQueue>& queue);

  /// Makes it the tensor's synchronisation of a step. No other thread holds it.
  void arm(OperationHandle handle, uint32_t stepNumber, Submission&& submission);
  void joinGroup(std::weak_ptr<const GroupStep> group) { group_ = std::move(group); }

  void joinLinked(std::weak_ptr<const LinkedStep> linked) { linked_ = std::move(linked); }

  OperationHandle handle() const { return handle_; }
  const Tensor& tensor() const { return *values_.tensor; }
  const Task& task(TaskIndex index) const { return tensor().graph().tasks()[index]; }
  /// What its tasks leave for each other.
  StepValues& values() { return values_; }
  const StepValues& values() const { return values_; }

  void noteStart(TaskIndex task, int64_t ns) { startedNs_[task] = ns; }
  int64_t started(TaskIndex task) const { return startedNs_[task]; }

  /// The task is complete.
  void complete(TaskIndex task);
  /// One more task before this one is complete; whether it was the last.
  bool isCleared(TaskIndex task) { return pending_[task].fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// A task and the steps that follow from it are done; whether it was the last one of all. Then the device's
  /// memory is released, and the caller's unless a caller waits.
  bool endTask();

  /// Ends the operation and wakes the waiter. Whether this was the first call: the others change nothing.
  bool finish(const Failure& failure);
  bool finished() const override { return finished_.load(std::memory_order_acquire); }
  /// Waits until finished or `until`.
  void waitUntil(Clock::time_point until);
  /// After finished(): how it ended.
  Failure failure() const;
  /// Its group's operation, or that of its last linked tensor, is done: releases the caller's memory, as
  /// endTask() does. `noValues`: no rank had values.
  void endInGroup(bool noValues);
  /// The caller has waited: releases its memory, or leaves that to tasks that still use it.
  void endWaiting() { release(kWaited); }
  /// After finished(): whether no rank had values.
  bool absent() const { return values_.absent.load(std::memory_order_relaxed); }

  bool hasCallback() const { return onDone_ != nullptr; }
  OnDone takeCallback() { return std::exchange(onDone_, nullptr); }

  Clock::time_point submitted() const override { return submitted_; }
  Wait wait() const override;
  std::shared_ptr<const AwaitedOperation> carrier() const override;

 private:
  enum User : uint8_t { kTasks = 1, kWaited = 2 };  // of the caller's memory, when they are done with it
  void release(User user);
  bool isComplete(TaskIndex task) const { return complete_[task].load(std::memory_order_relaxed); }
  bool isMissing(TaskIndex task) const;
  std::string workOfDevice() const;

  StepValues values_;
  OperationHandle handle_ = 0;
  std::shared_ptr<void> keepAlive_;    // owns input and output
  std::atomic<uint8_t> usersDone_{0};  // users of keepAlive_
  OnDone onDone_;                      // nullptr: a caller waits
  Clock::time_point submitted_;
  std::weak_ptr<const GroupStep> group_;    // empty: it is sent alone
  std::weak_ptr<const LinkedStep> linked_;  // empty: it is not sent as linked tensors

  // By task; the graph orders all accesses but those of wait(), which takes what it sees.
  std::vector<std::atomic<uint32_t>> pending_;
  std::vector<std::atomic<bool>> complete_;
  std::vector<int64_t> startedNs_;
  std::atomic<uint32_t> remaining_{0};

  mutable Mutex mutex_;
  ConditionVariable done_;
  std::atomic<bool> finished_{false};
  Failure failure_ HIPRESS_GUARDED_BY(mutex_);
};

using OperationPointer = std::shared_ptr<Operation>;

}  // namespace hipress
