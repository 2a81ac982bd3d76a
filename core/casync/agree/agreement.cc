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

std::vector<TensorHandle> pick(const std::vector<TensorHandle>& handles, const std::vector<size_t>& indices) {
  std::vector<TensorHandle> some;
  for (const size_t index : indices) some.push_back(handles[index]);
  return some;
}

}  // namespace

TensorHandle Agreement::declareOne(const TensorSpec& spec, const std::string& ledgerName) {
  spec.check(control_.worldSize());
  registry_.throwIfEnded("declaring tensor '" + spec.name + "'");
  const TensorHandle number = control_.declare(ledgerName, spec.describe(), spec.transient, timeout_);
  registry_.enter(number, spec);
  if (const auto tensor = registry_.tensor(number); tensor->isLinked()) {
    const auto [first, second] = linkedSpecs(*tensor);
    const auto declared = [&](const TensorSpec& linked) {
      return declareOne(linked, ledgerName + linked.name.substr(spec.name.size()));
    };
    const TensorHandle firstNumber = declared(first);
    registry_.enterLinked(number, firstNumber, declared(second));
  }
  return number;
}

std::vector<TensorHandle> Agreement::declare(const std::vector<TensorSpec>& specs) {
  std::vector<TensorHandle> handles;
  for (const auto& spec : specs) handles.push_back(declareOne(spec, spec.name));
  for (const auto& members : groupsOf(specs)) {
    const TensorSpec together = groupSpec(specs, members);
    registry_.enterGroup(declareOne(together, together.name), pick(handles, members));
  }
  return handles;
}

void Agreement::compareLists(const std::string& listName, const std::vector<TensorSpec>& specs) {
  std::set<std::string> names;
  for (const auto& spec : specs) {
    if (!names.insert(spec.name).second) {
      throw Error(ErrorKind::kDuplicateName, "two tensors are called '" + spec.name +
                                                 "'; give every tensor of '" + listName + "' its own name");
    }
    spec.check(control_.worldSize());
  }
  for (const auto& members : groupsOf(specs)) groupSpec(specs, members).check(control_.worldSize());
  registry_.throwIfEnded("agreeing on '" + listName + "'");
  const std::string text = listAsText(specs);
  // All ranks get what each rank sends, so whole lists would be N² of them.
  const auto digests = control_.allgather("list." + listName, std::string(asText(sha256(text))), timeout_);
  if (std::ranges::all_of(digests, [&](const std::string& digest) { return digest == digests[0]; })) return;
  const auto lists = control_.allgather("list." + listName + ".text", text, timeout_);
  for (size_t other = 1; other < lists.size(); ++other) {
    if (lists[other] == lists[0]) continue;
    throw Error(ErrorKind::kMismatch,
                listName + ": " + firstDifference(lists[0], lists[other], static_cast<int>(other)));
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
  std::vector<size_t> changed;
  std::set<TensorHandle> ended;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (isSentAsBefore(handles[i], specs[i], companions[i])) continue;
    changed.push_back(i);
    ended.insert(handles[i]);
    if (const auto group = registry_.groupOf(handles[i]); !group.empty()) ended.insert(group.front());
    for (const TensorHandle linked : registry_.linkedOf(handles[i])) ended.insert(linked);
    next[i] = declareOne(specs[i], ledgerName(specs[i]));
  }
  for (const auto& members : groups) {
    if (!ended.contains(handles[members.front()])) continue;
    const TensorSpec together = groupSpec(specs, members);
    registry_.enterGroup(declareOne(together, ledgerName(together)), pick(next, members));
  }
  StateHandover handover(states_);
  for (const size_t i : changed) handover.add(registry_.sentRange(handles[i]), registry_.sentRange(next[i]));
  auto unsent = handover.finish();
  for (size_t i = 0; i < specs.size(); ++i) result[i].handle = next[i];
  for (size_t k = 0; k < changed.size(); ++k) result[changed[k]].unsent = std::move(unsent[k]);
  registry_.remove(ended);
  return result;
}

}  // namespace hipress
