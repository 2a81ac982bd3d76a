// SPDX-License-Identifier: Apache-2.0
//
// One step of a group, whose tensors travel as one. Callers still submit and await each tensor alone. The
// last submission starts the carrier, the group tensor's operation; its result is copied to the members.
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

/// The ranks' agreement on a group; immutable.
struct TensorGroup {
  struct Member {
    uint32_t handle = 0;
    std::string name;
    Partition range;  ///< The member's elements in `tensor`.
  };

  std::string name;
  std::shared_ptr<const Tensor> tensor;  ///< The group's tensor: all members in a row.
  std::vector<Member> members;
};

class GroupStep {
 public:
  /// `device`: the device of the members; nullptr: the members are on the host, and `pool` serves them.
  GroupStep(std::shared_ptr<const TensorGroup> group, BufferPool& pool, std::shared_ptr<DeviceQueue> device);

  /// Adds a member, whose operation is armed. Returns whether all members have joined now.
  bool join(size_t member, const OperationPointer& operation);
  /// Starts to copy the values of a member that has joined; `copied` is called when they are copied.
  void copyIn(size_t member, const StepValues& values, EndCallback copied);
  /// Counts a copied member. Returns whether all members are copied, so that the carrier can be submitted.
  bool isLastCopied() {
    return copied_.fetch_add(1, std::memory_order_acq_rel) + 1 == group_->members.size();
  }

  uint32_t carrierTensor() const { return group_->tensor->id(); }
  /// The submission of the carrier, without `onDone`.
  static Submission submission(const std::shared_ptr<GroupStep>& step);
  void setCarrier(const OperationPointer& operation);
  std::shared_ptr<const AwaitedOperation> carrier() const;
  /// The operations of the members. They end with the carrier.
  std::vector<OperationPointer> takeOperations();
  /// Starts to copy the carrier's result to a member.
  void copyOut(size_t member, const StepValues& values, EndCallback copied);
  /// The error of a copy that failed.
  Error copyError(int rank, const Error& reason) const;

  const std::string& name() const { return group_->name; }
  /// The names of members that have not joined: "'a', 'b' and 3 more".
  std::string missing() const;

 private:
  Partition bytesOf(size_t member) const;

  const std::shared_ptr<const TensorGroup> group_;
  GroupValues values_;  // the thread of a member writes this member's part only

  // The last fetch_add on copied_ makes the values of all members visible here.
  std::atomic<size_t> copied_{0};
  std::atomic<bool> any_{false};  // this rank has values of at least one member
  // Sums over the members of what Submission::updates has: equal on ranks in step.
  std::atomic<uint32_t> updates_{0};
  std::atomic<uint32_t> factors_{0};
  std::atomic<bool> updatesKnown_{true};  // every member has an update count

  mutable Mutex mutex_;
  std::vector<OperationPointer> operations_ HIPRESS_GUARDED_BY(mutex_);  // index: the member
  size_t joined_ HIPRESS_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<StepVerdict> verdict_ HIPRESS_GUARDED_BY(mutex_);  // of the members
  std::weak_ptr<const Operation> carrier_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
