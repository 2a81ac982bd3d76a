// SPDX-License-Identifier: Apache-2.0
//
// How ranks agree on tensors: at first, and again when they are to be sent in another way.
#include <algorithm>
#include <utility>

#include "core/casync/agreement.h"
#include "core/casync/engine.h"
#include "core/casync/state_handover.h"
#include "core/casync/tensor_group.h"

namespace hipress {

/// Of a tensor that is not cut for overlap's sake, only to share out its aggregation.
constexpr size_t kUnlimitedPartition = size_t{1} << 50;

namespace {

std::vector<TensorHandle> of(const std::vector<TensorHandle>& handles, const std::vector<size_t>& indices) {
  std::vector<TensorHandle> some;
  for (const size_t index : indices) some.push_back(handles[index]);
  return some;
}

}  // namespace

std::shared_ptr<const Tensor> Engine::planned(TensorSpec spec, TensorHandle id) const {
  if (!spec.group.empty()) return memberTensor(std::move(spec), id);
  TensorPlan plan;
  plan.rank = rank_;
  plan.worldSize = worldSize_;
  plan.partitionBytes = options_.pipelining ? options_.partitionBytes : kUnlimitedPartition;
  plan.hosts = options_.hosts;
  return planTensor(std::move(spec), id, plan);
}

/// The name by which rank 0 knows the tensor is its own, or another if it is agreed on again.
TensorHandle Engine::declareOne(TensorSpec spec, const std::string& ledgerName) {
  checkSpec(spec, worldSize_);
  throwIfFailed("declaring tensor '" + spec.name + "'");
  const uint32_t id = control_->declare(ledgerName, spec.describe(), spec.transient, options_.timeout);
  auto tensor = planned(std::move(spec), id);
  auto deviceQueue = deviceQueueFor(*tensor);
  const std::lock_guard lock(mutex_);
  Entry& entry = tensors_[id];
  // Declared again, by a second optimizer or module: the steps go on, so that tags stay unique.
  if (!entry.active || entry.active->finished()) {
    entry.tensor = std::move(tensor);
    entry.device = std::move(deviceQueue);
    entry.spare.reset();
  } else if (entry.device != deviceQueue) {
    throw invalidArgument("tensor '" + tensor->spec.name +
                          "' is being synchronised; wait for it before it is declared on another device");
  }
  if (auto early = earlyConflicts_.extract(id)) entry.conflict = std::move(early.mapped());
  return id;
}

std::vector<TensorHandle> Engine::declare(std::vector<TensorSpec> specs) {
  std::vector<TensorHandle> handles;
  for (const auto& spec : specs) handles.push_back(declareOne(spec, spec.name));
  for (const auto& members : groupsOf(specs)) {
    const TensorSpec together = groupSpec(specs, members);
    declareGroup(together, of(handles, members), together.name);
  }
  return handles;
}

void Engine::compareLists(const std::string& listName, const std::vector<TensorSpec>& specs) {
  std::set<std::string> names;
  for (const auto& spec : specs) {
    if (!names.insert(spec.name).second) {
      throw Error(ErrorKind::kDuplicateName, "two tensors are called '" + spec.name +
                                                 "'; give every tensor of '" + listName + "' its own name");
    }
    checkSpec(spec, worldSize_);
  }
  for (const auto& members : groupsOf(specs)) checkSpec(groupSpec(specs, members), worldSize_);
  throwIfFailed("agreeing on '" + listName + "'");
  const auto lists = control_->allgather("list." + listName, listAsText(specs), options_.timeout);
  for (size_t other = 1; other < lists.size(); ++other) {
    if (lists[other] == lists[0]) continue;
    throw Error(ErrorKind::kMismatch,
                listName + ": " + firstDifference(lists[0], lists[other], static_cast<int>(other)));
  }
}

std::vector<TensorHandle> Engine::agree(const std::string& listName, std::vector<TensorSpec> specs) {
  compareLists(listName, specs);
  return declare(std::move(specs));
}

/// Throws InvalidArgument if the tensor is not the one that is specified, or in flight.
void Engine::throwIfAnother(const std::string& listName, TensorHandle handle, const TensorSpec& next) const {
  const TensorSpec& now = tensor(handle)->spec;
  if (now.name != next.name || now.count != next.count || now.dtype != next.dtype) {
    throw invalidArgument(listName + ": tensor '" + now.name + "' can be sent in another way, but not be '" +
                          next.name + "' or have another size or element type");
  }
  if (now.device != next.device) {
    throw invalidArgument("tensor '" + now.name +
                          "' can be sent in another way, but not be on another device; declare it anew");
  }
  const std::lock_guard lock(mutex_);
  const auto entry = tensors_.find(handle);
  if (entry != tensors_.end() && entry->second.active && !entry->second.active->finished()) {
    throw invalidArgument("tensor '" + now.name +
                          "' is being synchronised; wait for it before it is sent in another way");
  }
}

/// `members`: the handles of all tensors that will be in its group. What is equal on all ranks now and was
/// before, all ranks leave as it is.
bool Engine::travelsAsBefore(TensorHandle handle, const TensorSpec& next,
                             const std::vector<TensorHandle>& members) const {
  if (tensor(handle)->spec.describe() != next.describe()) return false;
  const auto group = groupOf(handle);
  return group == nullptr || std::ranges::equal(group->members, members, {}, &TensorGroup::Member::handle);
}

TravellingPart Engine::partOf(TensorHandle handle) const {
  const std::lock_guard lock(mutex_);
  const Entry& entry = tensors_.at(handle);
  if (entry.group != nullptr) return {entry.group->tensor, entry.group->members[entry.member].range};
  return {entry.tensor, {0, static_cast<size_t>(entry.tensor->spec.count)}};
}

std::vector<AgreedAnew> Engine::agreeAnew(const std::string& listName,
                                          const std::vector<TensorHandle>& handles,
                                          std::vector<TensorSpec> specs) {
  if (handles.size() != specs.size()) throw invalidArgument(listName + ": one handle per tensor is needed");
  for (size_t i = 0; i < specs.size(); ++i) throwIfAnother(listName, handles[i], specs[i]);
  compareLists(listName, specs);

  // Rank 0 knows a tensor's own name with what was agreed on first. Placement, order and states, though, go
  // by that name.
  const auto ledgerName = [&](const TensorSpec& spec) { return spec.name + " (" + listName + ")"; };
  const auto groups = groupsOf(specs);
  std::vector<std::vector<TensorHandle>> companions(specs.size());
  for (const auto& members : groups) {
    for (const size_t index : members) companions[index] = of(handles, members);
  }
  std::vector<AgreedAnew> result(specs.size());
  std::vector<TensorHandle> next = handles;
  std::vector<size_t> changed;
  std::set<TensorHandle> ended;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (travelsAsBefore(handles[i], specs[i], companions[i])) continue;
    changed.push_back(i);
    ended.insert(handles[i]);
    if (const auto group = groupOf(handles[i])) ended.insert(group->handle);
    next[i] = declareOne(specs[i], ledgerName(specs[i]));
  }
  for (const auto& members : groups) {
    if (!ended.contains(handles[members.front()])) continue;
    const TensorSpec together = groupSpec(specs, members);
    declareGroup(together, of(next, members), ledgerName(together));
  }
  StateHandover handover(states_);
  for (const size_t i : changed) handover.add(partOf(handles[i]), partOf(next[i]));
  auto heldBack = handover.finish();
  for (size_t i = 0; i < specs.size(); ++i) result[i].handle = next[i];
  for (size_t k = 0; k < changed.size(); ++k) result[changed[k]].heldBack = std::move(heldBack[k]);
  const std::lock_guard lock(mutex_);
  for (const TensorHandle handle : ended) tensors_.erase(handle);
  return result;
}

}  // namespace hipress
