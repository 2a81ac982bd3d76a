// SPDX-License-Identifier: Apache-2.0
//
// Groups of tensors (tensor_group.h): how their members' operations begin and end with the group's.
#include <algorithm>
#include <memory>
#include <utility>

#include "core/casync/engine.h"
#include "core/casync/tensor_group.h"

namespace hipress {
namespace {

Partition bytesOf(const TensorGroup& group, size_t member) {
  const Partition range = group.members[member].range;
  const size_t size = elementSize(group.tensor->spec.dtype);
  return {range.first * size, range.count * size};
}

}  // namespace

/// `members` in the order in which they travel.
void Engine::declareGroup(TensorSpec together, std::vector<TensorHandle> members,
                          const std::string& ledgerName) {
  auto group = std::make_shared<TensorGroup>();
  group->handle = declareOne(std::move(together), ledgerName);
  const std::lock_guard lock(mutex_);
  group->tensor = tensors_.at(group->handle).tensor;
  size_t first = 0;
  for (const TensorHandle handle : members) {
    Entry& entry = tensors_.at(handle);
    const TensorSpec& spec = entry.tensor->spec;
    const auto count = static_cast<size_t>(spec.count);
    group->name = spec.group;
    entry.group = group;
    entry.member = group->members.size();
    group->members.push_back({handle, spec.name, {first, count}});
    first += count;
  }
}

std::shared_ptr<TensorGroup> Engine::groupOf(TensorHandle handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = tensors_.find(handle);
  return found == tensors_.end() ? nullptr : found->second.group;
}

/// The step that the operation is of now. Called with the mutex held.
std::shared_ptr<GroupStep> Engine::joined(const Entry& entry, const OperationPointer& operation) {
  TensorGroup& group = *entry.group;
  if (group.step == nullptr) {
    auto next = std::make_shared<GroupStep>();
    next->values = pool_.take(group.tensor->inputBytes());
    next->operations.resize(group.members.size());
    group.step = std::move(next);
  }
  const std::shared_ptr<GroupStep> step = group.step;
  step->operations[entry.member] = operation;
  // The next step begins with the member that is submitted again first, after this one has ended.
  if (++step->submitted == group.members.size()) group.step = nullptr;
  return step;
}

/// Whoever has copied the last member's values starts the group.
void Engine::copyToGroup(const std::shared_ptr<TensorGroup>& group, const std::shared_ptr<GroupStep>& step,
                         size_t member) {
  const Operation& operation = *step->operations[member];
  const Partition bytes = bytesOf(*group, member);
  std::byte* const values = step->values.data() + bytes.first;
  if (operation.input != nullptr) {
    std::copy_n(operation.input, bytes.count, values);
    step->any.store(true, std::memory_order_relaxed);
  } else {
    std::fill_n(values, bytes.count, std::byte{0});
  }
  if (step->copied.fetch_add(1, std::memory_order_acq_rel) + 1 < group->members.size()) return;
  Submission together;
  together.input = step->any.load(std::memory_order_relaxed) ? step->values.data() : nullptr;
  together.output = step->values.data();
  together.keepAlive = step;
  together.onDone = [this, step, group](const Failure& failure, bool absent) {
    endGroup(*group, *step, failure, absent);
  };
  try {
    submit(group->handle, std::move(together));
  } catch (const Error& error) {
    // Members were submitted well: they learn of it as of every failure that comes later.
    endGroup(*group, *step, std::make_shared<Error>(error), false);
  }
}

void Engine::endGroup(const TensorGroup& group, GroupStep& step, const Failure& failure, bool absent) {
  for (size_t member = 0; member < step.operations.size(); ++member) {
    const OperationPointer operation = std::move(step.operations[member]);
    if (!failure && !absent) {
      const Partition bytes = bytesOf(group, member);
      std::copy_n(step.values.data() + bytes.first, bytes.count, operation->output);
    }
    operation->absent.store(absent, std::memory_order_relaxed);
    operation->keepAlive.reset();
    end(operation, failure);
  }
}

/// What is on its way for a member: its group's operation, if that has started.
Engine::OperationPointer Engine::travelling(const OperationPointer& operation) const {
  const std::lock_guard lock(mutex_);
  const auto found = tensors_.find(operation->tensor->id);
  if (found == tensors_.end() || found->second.group == nullptr) return operation;
  const TensorGroup& group = *found->second.group;
  if (group.step != nullptr && group.step->operations[found->second.member] == operation) return operation;
  const auto together = tensors_.find(group.handle);
  const bool started = together != tensors_.end() && together->second.active != nullptr;
  return started ? together->second.active : operation;
}

}  // namespace hipress
