// SPDX-License-Identifier: Apache-2.0
//
// The agreed tensors and the operations in flight. Only this class enters and removes operations, under the
// lock that also protects their tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/base/mutex.h"
#include "core/casync/agree/announced_numbers.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/casync/compute/device_queues.h"
#include "core/casync/fail/job_end.h"
#include "core/casync/fail/operations_in_flight.h"
#include "core/casync/run/group_step.h"
#include "core/casync/run/linked_step.h"
#include "core/casync/run/operation.h"
#include "core/codec/state/state_store.h"

namespace hipress {

class TensorTable final : public TensorRegistry, public OperationsInFlight {
 public:
  using OnConflict = std::function<void(const OperationPointer&)>;
  /// `onConflict` is called for each operation that a conflict about its tensor has ended.
  TensorTable(TensorPlan plan, StateStore& states, BufferPool& pool, const JobEnd& job, OnConflict onConflict)
      : plan_(std::move(plan)), states_(states), pool_(pool), job_(job), onConflict_(std::move(onConflict)) {}

  void throwIfEnded(const std::string& doing) const override { job_.throwIfEnded(doing + ": "); }
  void enter(TensorHandle number, TensorSpec spec) override;
  void enterGroup(TensorHandle together, const std::vector<TensorHandle>& members) override;
  void enterLinked(TensorHandle tensor, TensorHandle first, TensorHandle second) override;
  std::vector<TensorHandle> linkedOf(TensorHandle handle) const override;
  void remove(const std::set<TensorHandle>& handles) override;
  std::shared_ptr<const Tensor> tensor(TensorHandle handle) const override;
  bool isInFlight(TensorHandle handle) const override;
  SentRange sentRange(TensorHandle handle) const override;
  std::vector<TensorHandle> groupOf(TensorHandle handle) const override;
  SentSteps steps(TensorHandle handle) const override;
  void setSteps(TensorHandle handle, const SentSteps& steps) override;
  /// Multiplies the states of tensors by `factor`: the unit of their gradients has changed. Returns when it
  /// is done. Throws InvalidArgument if a tensor is in flight, and errors of a device.
  void multiplyStates(const std::vector<TensorHandle>& handles, float factor);
  /// From their next operations on, the states of these tensors change by whole steps: StepVerdict. If those
  /// of the first one do already, the others join its steps.
  void settleBySteps(const std::vector<TensorHandle>& handles);
  /// The next operation of the tensors that change with this one begins another step. Returns whether all
  /// results of the step that has ended were finite; false, too, if operations of it have not ended.
  bool endStep(TensorHandle handle);
  /// Enters a tensor whose next step is `step`. No rank is asked.
  void enterAtStep(TensorHandle number, TensorSpec spec, uint32_t step);

  /// Enters a tensor that rank 0 has not numbered yet, and its linked tensors behind it. Their operations
  /// wait for number(). Adds what rank 0 is asked to `tensors`. Throws the errors of enter().
  std::vector<TensorHandle> announce(TensorSpec spec, std::vector<Declaration>& tensors);
  struct Begun;
  /// The answer of rank 0 for announced tensors. Returns the operation that has waited for it, to start it;
  /// nothing: it has not been submitted yet, or has ended.
  std::optional<Begun> number(const std::vector<TensorHandle>& announced,
                              const std::vector<uint32_t>& numbers);
  /// Rank 0 has refused announced tensors: ends the operation that waits, or rejects its submission.
  void refuse(const std::vector<TensorHandle>& announced, const Failure& failure);

  struct Begun {
    OperationPointer operation;
    std::shared_ptr<GroupStep> group;    ///< nullptr: the tensor is in no group.
    size_t member = 0;                   ///< The tensor's index in the group.
    std::shared_ptr<LinkedStep> linked;  ///< nullptr: the tensor does not travel as linked tensors.
    bool needsWatch = false;             ///< The first operation in flight that no caller waits for.
    bool awaitsNumber = false;           ///< number() returns it again when it can start.
  };
  /// Makes the operation of the tensor's next step. Throws the errors of Engine::submit().
  Begun begin(TensorHandle handle, Submission&& submission);
  /// Returns nullptr if the operation is unknown.
  OperationPointer find(OperationHandle handle) const;
  /// Ends the operation and calls its callback, unless it has ended already.
  void end(const OperationPointer& operation, const Failure& failure);
  /// A caller knows how the operation ended: its memory can serve the tensor's next step.
  void forget(const OperationPointer& operation);
  /// The operations that no caller waits for.
  std::vector<OperationPointer> unattended() const;
  /// The operations in flight that callers have submitted, and not the engine itself.
  std::vector<OperationPointer> ofCallers() const;
  /// The tensor that all ranks call `number`, and its next step; nullptr: this rank does not know it.
  std::pair<std::shared_ptr<const Tensor>, uint32_t> numbered(uint32_t number) const;
  /// For shutdown: ends all operations and drops all tensors.
  void clear();

  DeviceQueues& devices() { return devices_; }

  std::vector<std::shared_ptr<const AwaitedOperation>> unfinished() const override;
  bool hasSubmitted(uint32_t tensor, uint32_t step) const override;
  void endAll(const Failure& failure) override;
  void endConflicting(uint32_t tensor, const Failure& failure) override;

 private:
  struct Entry {
    std::shared_ptr<const Tensor> tensor;
    uint32_t number = 0;            // the agreed one; 0: rank 0 has not told it yet
    std::optional<Begun> awaiting;  // the operation that waits for the number
    std::shared_ptr<DeviceQueue> device;
    uint32_t nextStep = 0;
    std::optional<uint32_t> randomTensor;  // see SentSteps; empty: the tensor's own number
    OperationPointer active;
    OperationPointer spare;                    // the last operation; the next step uses it again
    Failure conflict;                          // the ranks' conflict about this tensor
    std::shared_ptr<const TensorGroup> group;  // nullptr: the tensor is in no group
    size_t member = 0;                         // index in the group
    std::shared_ptr<VerdictByStep> bySteps;    // of the tensor's list; nullptr: each result decides alone
    std::vector<TensorHandle> linked;          // the first and the second linked tensor; empty: none
    std::shared_ptr<GroupStep> gathering;      // for a group's tensor: the step that members join now

    bool isActive() const { return active && !active->finished(); }
  };
  using Tensors = std::unordered_map<TensorHandle, Entry>;
  using Operations = std::unordered_map<OperationHandle, OperationPointer>;

  Entry planned(TensorHandle handle, TensorSpec spec);
  static void seedByName(Entry& entry);
  static void numberOperation(const Entry& entry, Operation& operation);
  void drop(Tensors::iterator entry) HIPRESS_REQUIRES(mutex_);
  Entry& entryOf(TensorHandle handle) HIPRESS_REQUIRES(mutex_);
  const Entry& entryOf(TensorHandle handle) const HIPRESS_REQUIRES(mutex_) {
    return const_cast<TensorTable*>(this)->entryOf(handle);
  }
  void throwIfInFlight(const Entry& entry) const HIPRESS_REQUIRES(mutex_);
  OperationPointer unarmed(Entry& entry) HIPRESS_REQUIRES(mutex_);
  std::unique_ptr<LinkedValues> linkedValues(StepValues& values) const;
  void join(Begun& begun, const Entry& entry) HIPRESS_REQUIRES(mutex_);
  void insert(const OperationPointer& operation) HIPRESS_REQUIRES(mutex_);
  void erase(const OperationPointer& operation) HIPRESS_REQUIRES(mutex_);

  const TensorPlan plan_;
  StateStore& states_;
  BufferPool& pool_;
  const JobEnd& job_;
  const OnConflict onConflict_;
  DeviceQueues devices_;

  mutable Mutex mutex_;
  Tensors tensors_ HIPRESS_GUARDED_BY(mutex_);
  AnnouncedNumbers numbers_ HIPRESS_GUARDED_BY(mutex_);
  Operations operations_ HIPRESS_GUARDED_BY(mutex_);
  std::vector<Operations::node_type> spareNodes_ HIPRESS_GUARDED_BY(mutex_);  // of operations_
  OperationHandle nextOperation_ HIPRESS_GUARDED_BY(mutex_) = 1;
  size_t unattended_ HIPRESS_GUARDED_BY(mutex_) = 0;  // operations in flight that no caller waits for
};

}  // namespace hipress
