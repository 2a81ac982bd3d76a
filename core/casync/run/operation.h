// SPDX-License-Identifier: Apache-2.0
//
// An operation in flight: the progress of its task graph, and its end.
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

/// The number of an operation in flight; see Engine::submit().
using OperationHandle = uint64_t;
/// `failure`: the error of the operation, or nullptr. `absent`: no rank had values, the output is unwritten.
using OnDone = std::function<void(const Failure& failure, bool absent)>;

/// The caller's values of one step of a tensor, and the function to call at its end.
struct Submission {
  /// Tensor::inputBytes() bytes, unchanged until the end; nullptr: this rank has no values in this step.
  const void* input = nullptr;
  void* output = nullptr;  ///< Tensor::outputBytes() bytes; may be `input`. Undefined until the end.
  /// On a device: an event of the device's kind, which keepAlive owns. The stream must reach it before input
  /// and output are usable. nullptr: they are usable now.
  void* ready = nullptr;
  /// Owner of both. Released after the last task, message and waiting caller: by the waiting caller's thread
  /// if there is one, as the network thread must not wait for Python's lock.
  std::shared_ptr<void> keepAlive;
  /// updatesInMessage() of the number of earlier results with which the caller has updated the tensor's
  /// variable, and of the factors by which it multiplied them; 0: unknown. Different values on two ranks are
  /// a Mismatch.
  uint16_t updates = 0;
  /// Decides over the states together with other tensors' results. nullptr: as the tensor's list says.
  std::shared_ptr<StepVerdict> verdict;
  bool inner = false;  ///< The engine itself submits it, for an operation of a caller or of another rank.
  /// Called once when the operation has ended, on the thread that ended it. With it, no caller may wait() for
  /// or poll() the operation. It must not block, throw, or shut the engine down.
  OnDone onDone;
};

class Operation final : public AwaitedOperation {
 public:
  /// `queue`: the queue of the tensor's device; nullptr: the values are on the host.
  Operation(std::shared_ptr<const Tensor> planned, const std::shared_ptr<DeviceQueue>& queue);

  /// Makes the object the operation of the tensor's next step. No other thread may hold it.
  void arm(OperationHandle handle, uint32_t stepNumber, Submission&& submission);
  void joinGroup(std::weak_ptr<const GroupStep> group) { group_ = std::move(group); }

  void joinLinked(std::weak_ptr<const LinkedStep> linked) { linked_ = std::move(linked); }

  OperationHandle handle() const { return handle_; }
  /// The tensor's number in the tags of messages; 0: rank 0 has not told it yet.
  uint32_t number() const { return number_.load(std::memory_order_relaxed); }
  void setNumber(uint32_t number) { number_.store(number, std::memory_order_relaxed); }
  const Tensor& tensor() const { return *values_.tensor; }
  const Task& task(TaskIndex index) const { return tensor().graph().tasks()[index]; }
  /// The values, messages and buffers that the tasks share.
  StepValues& values() { return values_; }
  const StepValues& values() const { return values_; }

  void noteStart(TaskIndex task, int64_t ns) { startedNs_[task] = ns; }
  int64_t started(TaskIndex task) const { return startedNs_[task]; }

  /// Marks a task as complete.
  void complete(TaskIndex task);
  /// One predecessor of the task is complete. Returns whether it was the last one.
  bool isCleared(TaskIndex task) { return pending_[task].fetch_sub(1, std::memory_order_acq_rel) == 1; }
  /// Counts a task as done, with all steps that follow from it. Returns whether it was the last task of all.
  /// The last one releases the device's memory and, unless a caller waits, the caller's memory.
  bool endTask();

  /// Ends the operation and wakes the waiter. Returns whether this was the first call; others do nothing.
  bool finish(const Failure& failure);
  bool finished() const override { return finished_.load(std::memory_order_acquire); }
  /// Waits until the operation has ended, or until `until`.
  void waitUntil(Clock::time_point until);
  /// The error of the operation, after finished().
  Failure failure() const;
  /// The carrier of its group, or of its last linked tensor, is done or has failed: releases the caller's
  /// memory like endTask(). `noValues`: no rank had values.
  void endInGroup(bool failed, bool noValues);
  /// The caller has waited: releases the caller's memory, unless tasks still use it.
  void endWaiting() { release(kWaited); }
  /// Whether no rank had values, after finished().
  bool absent() const { return values_.absent.load(std::memory_order_relaxed); }

  bool isInner() const { return isInner_; }
  bool hasCallback() const { return onDone_ != nullptr; }
  OnDone takeCallback() { return std::exchange(onDone_, nullptr); }

  Clock::time_point submitted() const override { return submitted_; }
  Wait wait() const override;
  const ProcessSet& among() const override { return tensor().spec().among; }
  std::shared_ptr<const AwaitedOperation> carrier() const override;

 private:
  enum User : uint8_t { kTasks = 1, kWaited = 2 };  // the two users of the caller's memory
  void release(User user);
  bool isComplete(TaskIndex task) const { return complete_[task].load(std::memory_order_relaxed); }
  bool isMissing(TaskIndex task) const;
  std::string workOfDevice() const;

  StepValues values_;
  OperationHandle handle_ = 0;
  std::atomic<uint32_t> number_{0};
  std::shared_ptr<void> keepAlive_;    // owns input and output
  std::atomic<uint8_t> usersDone_{0};  // users that are done with keepAlive_
  OnDone onDone_;                      // nullptr: a caller waits
  bool isInner_ = false;               // Submission::inner
  Clock::time_point submitted_;
  std::weak_ptr<const GroupStep> group_;    // empty: the tensor is in no group
  std::weak_ptr<const LinkedStep> linked_;  // empty: the tensor does not travel as linked tensors

  // Index: the task. The graph orders all accesses but wait()'s, for which values of any moment are good.
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
