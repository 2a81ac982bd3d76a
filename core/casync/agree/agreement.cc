// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/agreement.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/authentication/sha256.h"
#include "core/casync/agree/linked_specs.h"
#include "core/casync/agree/list_comparison.h"
#include "core/casync/agree/state_handover.h"
#include "core/casync/agree/tensor_group.h"

namespace hipress {
namespace {

/// The process set of a list. Throws InvalidArgument if it has several.
ProcessSet setOf(const std::vector<TensorSpec>& specs) {
  if (specs.empty()) return {};
  for (const TensorSpec& spec : specs) {
    if (spec.among != specs.front().among)
      throw invalidArgument("tensor '" + spec.name + "' is among " + textOf(spec.among) + ", and '" +
                            specs.front().name + "' among " + textOf(specs.front().among) +
                            "; agree on the tensors of each process set alone");
  }
  return specs.front().among;
}

std::vector<TensorHandle> pick(const std::vector<TensorHandle>& handles, const std::vector<size_t>& indices) {
  std::vector<TensorHandle> some;
  for (const size_t index : indices) some.push_back(handles[index]);
  return some;
}

}  // namespace

std::vector<uint32_t> Agreement::numbersFor(const std::vector<Named>& tensors) {
  std::vector<Declaration> declarations;
  for (const auto& [spec, ledgerName] : tensors)
    declarations.push_back({ledgerName, spec.describe(), spec.transient});
  return control_.declare(std::move(declarations), timeout_, tensors.front().spec.among);
}

std::vector<TensorHandle> Agreement::declareAll(const std::vector<Named>& tensors) {
  if (tensors.empty()) return {};
  for (const auto& [spec, ledgerName] : tensors) spec.check(control_.rank(), control_.worldSize());
  registry_.throwIfEnded("declaring tensor '" + tensors.front().spec.name + "'");
  const std::vector<uint32_t> numbers = numbersFor(tensors);
  std::vector<Named> linked;
  std::vector<TensorHandle> linking;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [spec, ledgerName] = tensors[i];
    registry_.enter(numbers[i], spec);
    const auto tensor = registry_.tensor(numbers[i]);
    if (!tensor->isLinked()) continue;
    linking.push_back(numbers[i]);
    const auto [first, second] = linkedSpecs(*tensor);
    for (const TensorSpec& each : {first, second})
      linked.push_back({each, ledgerName + each.name.substr(spec.name.size())});
  }
  const std::vector<TensorHandle> handles = declareAll(linked);
  for (size_t i = 0; i < linking.size(); ++i)
    registry_.enterLinked(linking[i], handles[2 * i], handles[2 * i + 1]);
  return numbers;
}

std::vector<TensorHandle> Agreement::declare(const std::vector<TensorSpec>& specs) {
  setOf(specs);
  std::vector<Named> tensors;
  for (const auto& spec : specs) tensors.push_back({spec, spec.name});
  const auto groups = groupsOf(specs);
  for (const auto& members : groups) {
    const TensorSpec together = groupSpec(specs, members);
    tensors.push_back({together, together.name});
  }
  std::vector<TensorHandle> handles = declareAll(tensors);
  for (size_t group = 0; group < groups.size(); ++group)
    registry_.enterGroup(handles[specs.size() + group], pick(handles, groups[group]));
  handles.resize(specs.size());
  return handles;
}

void Agreement::compareLists(const std::string& listName, const std::vector<TensorSpec>& specs) {
  const ProcessSet among = setOf(specs);
  std::set<std::string> names;
  for (const auto& spec : specs) {
    if (!names.insert(spec.name).second) {
      throw Error(ErrorKind::kDuplicateName, "two tensors are called '" + spec.name +
                                                 "'; give every tensor of '" + listName + "' its own name");
    }
    spec.check(control_.rank(), control_.worldSize());
  }
  for (const auto& members : groupsOf(specs))
    groupSpec(specs, members).check(control_.rank(), control_.worldSize());
  registry_.throwIfEnded("agreeing on '" + listName + "'");
  const std::string text = listAsText(specs);
  // All ranks get what each rank sends, so whole lists would be N² of them.
  const std::string digest(asText(sha256(text)));
  const auto digests = control_.allgather("list." + listName, digest, timeout_, among);
  if (std::ranges::all_of(digests, [&](const std::string& each) { return each == digests[0]; })) return;
  const auto lists = control_.allgather("list." + listName + ".text", text, timeout_, among);
  for (size_t other = 1; other < lists.size(); ++other) {
    if (lists[other] == lists[0]) continue;
    throw Error(
        ErrorKind::kMismatch,
        listName + ": " + firstDifference(lists[0], lists[other], rankAt(among, 0), rankAt(among, other)));
  }
}

std::vector<TensorHandle> Agreement::agree(const std::string& listName,
                                           const std::vector<TensorSpec>& specs) {
  compareLists(listName, specs);
  return declare(specs);
}

/// Throws InvalidArgument if the handle is of another tensor than `next`, or if the tensor is in flight.
void Agreement::checkChange(const std::string& listName, TensorHandle handle, const TensorSpec& next) const {
  const auto tensor = registry_.tensor(handle);
  const TensorSpec& now = tensor->spec();
  if (now.name != next.name || now.count != next.count || now.dtype != next.dtype) {
    throw invalidArgument(listName + ": tensor '" + now.name +
                          "' can be sent in another way, but cannot become '" + next.name +
                          "' or get another size or element type");
  }
  if (now.device != next.device) {
    throw invalidArgument("tensor '" + now.name +
                          "' can be sent in another way, but not move to another device; declare it anew");
  }
  if (registry_.isInFlight(handle)) {
    throw invalidArgument("tensor '" + now.name +
                          "' is being synchronised; wait for it before it is sent in another way");
  }
}

/// Whether the tensor keeps its codec, topology and group. `members`: the handles of the tensors of its new
/// group. All ranks get the same answer, because old and new options are equal on all ranks.
bool Agreement::isSentAsBefore(TensorHandle handle, const TensorSpec& next,
                               const std::vector<TensorHandle>& members) const {
  if (registry_.tensor(handle)->spec().describe() != next.describe()) return false;
  const auto group = registry_.groupOf(handle);
  return group.empty() || std::equal(group.begin() + 1, group.end(), members.begin(), members.end());
}

void Agreement::forget(const std::vector<TensorHandle>& handles) {
  std::set<TensorHandle> ended;
  for (const TensorHandle handle : handles) {
    if (registry_.isInFlight(handle)) continue;
    ended.insert(handle);
    if (const auto group = registry_.groupOf(handle); !group.empty() && !registry_.isInFlight(group.front()))
      ended.insert(group.front());
    for (const TensorHandle linked : registry_.linkedOf(handle)) ended.insert(linked);
  }
  for (const TensorHandle handle : ended) states_.erase(registry_.tensor(handle)->spec().name);
  registry_.remove(ended);
}

std::vector<AgreedAnew> Agreement::agreeAnew(const std::string& listName,
                                             const std::vector<TensorHandle>& handles,
                                             const std::vector<TensorSpec>& specs) {
  if (handles.size() != specs.size()) throw invalidArgument(listName + ": one handle per tensor is needed");
  for (size_t i = 0; i < specs.size(); ++i) checkChange(listName, handles[i], specs[i]);
  compareLists(listName, specs);

  // Rank 0 keeps the tensor's own name for the first specification. Shares, order and states depend on the
  // own name.
  const auto ledgerName = [&](const TensorSpec& spec) { return spec.name + " (" + listName + ")"; };
  const auto groups = groupsOf(specs);
  std::vector<std::vector<TensorHandle>> companions(specs.size());
  for (const auto& members : groups) {
    for (const size_t index : members) companions[index] = pick(handles, members);
  }
  std::vector<AgreedAnew> result(specs.size());
  std::vector<TensorHandle> next = handles;
  std::vector<Named> tensors;
  std::vector<size_t> changed;
  std::set<TensorHandle> ended;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (isSentAsBefore(handles[i], specs[i], companions[i])) continue;
    changed.push_back(i);
    ended.insert(handles[i]);
    if (const auto group = registry_.groupOf(handles[i]); !group.empty()) ended.insert(group.front());
    for (const TensorHandle linked : registry_.linkedOf(handles[i])) ended.insert(linked);
    tensors.push_back({specs[i], ledgerName(specs[i])});
  }
  std::vector<const std::vector<size_t>*> changedGroups;
  for (const auto& members : groups) {
    if (!ended.contains(handles[members.front()])) continue;
    changedGroups.push_back(&members);
    const TensorSpec together = groupSpec(specs, members);
    tensors.push_back({together, ledgerName(together)});
  }
  const std::vector<TensorHandle> entered = declareAll(tensors);
  for (size_t k = 0; k < changed.size(); ++k) next[changed[k]] = entered[k];
  for (size_t group = 0; group < changedGroups.size(); ++group)
    registry_.enterGroup(entered[changed.size() + group], pick(next, *changedGroups[group]));
  StateHandover handover(states_);
  for (const size_t i : changed) handover.add(registry_.sentRange(handles[i]), registry_.sentRange(next[i]));
  auto unsent = handover.finish();
  for (size_t i = 0; i < specs.size(); ++i) result[i].handle = next[i];
  for (size_t k = 0; k < changed.size(); ++k) result[changed[k]].unsent = std::move(unsent[k]);
  registry_.remove(ended);
  return result;
}

}  // namespace hipress
