// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/group_step.h"

#include <utility>

#include "core/casync/agree/tensor_group.h"

namespace hipress {

GroupStep::GroupStep(std::shared_ptr<const TensorGroup> group, BufferPool& pool,
                     std::shared_ptr<DeviceQueue> device)
    : group_(std::move(group)),
      values_(pool, std::move(device), group_->tensor->inputBytes()),
      operations_(group_->members.size()) {}

bool GroupStep::join(size_t member, const OperationPointer& operation) {
  const MutexLock lock(mutex_);
  operations_[member] = operation;
  verdict_ = operation->values().verdict;
  return ++joined_ == operations_.size();
}

Partition GroupStep::bytesOf(size_t member) const {
  const Partition range = group_->members[member].range;
  const size_t size = elementSize(group_->tensor->spec().dtype);
  return {range.first * size, range.count * size};
}

void GroupStep::copyIn(size_t member, const StepValues& values, EndCallback copied) {
  if (values.input != nullptr) any_.store(true, std::memory_order_relaxed);
  if (values.updates == 0) {
    updatesKnown_.store(false, std::memory_order_relaxed);
  } else {
    updates_.fetch_add(countIn(values.updates), std::memory_order_relaxed);
    factors_.fetch_add(factorsIn(values.updates), std::memory_order_relaxed);
  }
  values_.copyIn(values, member, bytesOf(member), std::move(copied));
}

void GroupStep::copyOut(size_t member, const StepValues& values, EndCallback copied) {
  values_.copyOut(values, member, bytesOf(member), std::move(copied));
}

Error GroupStep::copyError(int rank, const Error& reason) const {
  return {reason.kind(), "rank " + std::to_string(rank) + ": group '" + name() + "': " + reason.what()};
}

Submission GroupStep::submission(const std::shared_ptr<GroupStep>& step) {
  Submission together;
  together.input = step->any_.load(std::memory_order_relaxed) ? step->values_.data() : nullptr;
  together.output = step->values_.data();
  together.keepAlive = step;
  together.inner = true;
  {
    const MutexLock lock(step->mutex_);
    together.verdict = step->verdict_;
  }
  if (step->updatesKnown_.load(std::memory_order_relaxed))
    together.updates = updatesInMessage(step->updates_.load(std::memory_order_relaxed),
                                        step->factors_.load(std::memory_order_relaxed));
  return together;
}

void GroupStep::setCarrier(const OperationPointer& operation) {
  const MutexLock lock(mutex_);
  carrier_ = operation;
}

std::shared_ptr<const AwaitedOperation> GroupStep::carrier() const {
  const MutexLock lock(mutex_);
  return carrier_.lock();
}

std::vector<OperationPointer> GroupStep::takeOperations() {
  const MutexLock lock(mutex_);
  return std::move(operations_);
}

std::string GroupStep::missing() const {
  std::vector<std::string> names;
  const MutexLock lock(mutex_);
  for (size_t member = 0; member < operations_.size(); ++member) {
    if (operations_[member] == nullptr) names.push_back(group_->members[member].name);
  }
  return listedNames(names);
}

}  // namespace hipress
