// SPDX-License-Identifier: Apache-2.0
//
// One step of a group, whose tensors are sent as one. Each is still submitted and waited for alone: the last
// submission starts the operation of the group's tensor, the carrier, whose result is copied to each member.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/compute/group_values.h"
#include "core/casync/graph/tensor.h"
#include "core/casync/run/operation.h"

namespace hipress {

/// What is agreed on for a group; immutable once made.
struct TensorGroup {
  struct Member {
    uint32_t handle = 0;
    std::string name;
    Partition range;  ///< Of the elements of `tensor`.
  };

  std::string name;
  std::shared_ptr<const Tensor> tensor;  ///< All members in a row.
  std::vector<Member> members;
};

class GroupStep {
 public:
  /// `device`: of the members; nullptr: they are on the host, whose `pool` is.
  GroupStep(std::shared_ptr<const TensorGroup> group, BufferPool& pool, std::shared_ptr<DeviceQueue> device);

  /// Whether all members have joined now.
  bool join(size_t member, const OperationPointer& operation);
  /// Starts to copy the values of a member that has joined; `copied` is called when they are copied.
  void copyIn(size_t member, const StepValues& values, EndCallback copied);
  /// A member's values are copied; whether they were the last, so that the carrier can be submitted.
  bool isLastCopied() {
    return copied_.fetch_add(1, std::memory_order_acq_rel) + 1 == group_->members.size();
  }

  uint32_t carrierTensor() const { return group_->tensor->id(); }
  /// The carrier's values, without `onDone`.
  static Submission submission(const std::shared_ptr<GroupStep>& step);
  void setCarrier(const OperationPointer& operation);
  std::shared_ptr<const AwaitedOperation> carrier() const;
  /// The members' operations, which end with the carrier.
  std::vector<OperationPointer> takeOperations();
  /// Starts to copy the carrier's result to a member.
  void copyOut(size_t member, const StepValues& values, EndCallback copied);
  /// The error of a copy that failed.
  Error copyError(int rank, const Error& reason) const;

  const std::string& name() const { return group_->name; }
  /// Members that have not joined: "'a', 'b' and 3 more".
  std::string missing() const;

 private:
  Partition bytesOf(size_t member) const;

  const std::shared_ptr<const TensorGroup> group_;
  GroupValues values_;  // each member's thread writes its own

  // After the last member's fetch_add on copied_ these have the values of all.
  std::atomic<size_t> copied_{0};
  std::atomic<bool> any_{false};          // this rank has values of a member
  std::atomic<uint32_t> updates_{0};      // the sum of the members' counts: equal on ranks in step
  std::atomic<bool> updatesKnown_{true};  // every member counts

  mutable Mutex mutex_;
  std::vector<OperationPointer> operations_ HIPRESS_GUARDED_BY(mutex_);  // by member
  size_t joined_ HIPRESS_GUARDED_BY(mutex_) = 0;
  std::weak_ptr<const Operation> carrier_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
