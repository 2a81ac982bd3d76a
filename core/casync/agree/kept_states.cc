// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/kept_states.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

const std::string& nameOf(const TensorRegistry& registry, TensorHandle handle) {
  return registry.tensor(handle)->spec().name;
}

void checkIdle(const TensorRegistry& registry, TensorHandle handle) {
  const auto group = registry.groupOf(handle);
  if (!registry.isInFlight(handle) && (group.empty() || !registry.isInFlight(group.front()))) return;
  throw invalidArgument("tensor '" + nameOf(registry, handle) +
                        "' is being synchronised; save and load codecs' states between steps");
}

/// Calls `visit(stretch)` for the parts of `stretches` in `range`. Elements count from the start of `range`.
template <typename Visit>
void within(const std::vector<Stretch>& stretches, const Partition& range, const Visit& visit) {
  for (Stretch stretch : stretches) {
    const size_t first = std::max(stretch.range.first, range.first);
    const size_t end = std::min(stretch.end(), range.first + range.count);
    if (first >= end) continue;
    stretch.range = {first - range.first, end - first};
    visit(stretch);
  }
}

void checkFits(const std::string& tensor, size_t count, const RestoredStates& restored) {
  size_t covered = 0;
  for (const Stretch& stretch : restored.stretches) {
    if (stretch.range.first != covered)
      throw invalidArgument("the saved stretches of tensor '" + tensor + "' do not follow each other");
    covered = stretch.end();
  }
  if (covered != count) {
    throw invalidArgument("the saved stretches of tensor '" + tensor + "' have " + std::to_string(covered) +
                          " elements, and it has " + std::to_string(count));
  }
  for (const auto& [name, saved] : restored.values) {
    const std::string what = "the saved state '" + name + "' of tensor '" + tensor + "' has ";
    if (saved.block < 1 || kStateBlock % saved.block != 0) {
      throw invalidArgument(what + "one value for each " + std::to_string(saved.block) +
                            " elements, and only numbers that divide " + std::to_string(kStateBlock) +
                            " can be");
    }
    if (name == kResidual && saved.block != 1)
      throw invalidArgument(what + "one value for several elements, and a residual has one for each");
    const size_t wanted = CodecState{name, saved.block}.count(count);
    if (saved.values.size() == wanted) continue;
    throw invalidArgument(what + std::to_string(saved.values.size()) + " elements, and it has " +
                          std::to_string(wanted));
  }
}

/// A state of a name has a meaning for elements, or for blocks of one size.
void checkSameBlocks(const std::string& name, const Tensor& tensor, const RestoredStates& restored) {
  for (const StateRole role : {StateRole::kWorker, StateRole::kAggregator}) {
    for (const CodecState& state : codecOf(tensor, role).states()) {
      const auto saved = restored.values.find(state.name);
      if (saved == restored.values.end() || saved->second.block == state.block) continue;
      throw invalidArgument("the saved state '" + state.name + "' of tensor '" + name +
                            "' has one value for each " + std::to_string(saved->second.block) +
                            " elements, and its codec keeps one for each " + std::to_string(state.block) +
                            "; use the codec with which the states were saved");
    }
  }
}

/// The states as the store keeps them: by role, with zeros where the rank encoded in another role.
SentStates byRole(const RestoredStates& restored) {
  SentStates result{restored.stretches, {}};
  for (const Stretch& stretch : restored.stretches) {
    if (!stretch.role) continue;
    for (const auto& [name, saved] : restored.values) {
      const CodecState state{name, saved.block};
      StateValues& own = result.states[{*stretch.role, name}];
      own.block = state.block;
      own.values.resize(saved.values.size());
      const size_t first = stretch.range.first / state.block;
      std::ranges::copy(saved.values.subspan(first, state.count(stretch.end()) - first),
                        own.values.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  return result;
}

void checkGroups(const TensorRegistry& registry, const std::vector<TensorHandle>& handles) {
  const std::set<TensorHandle> given(handles.begin(), handles.end());
  for (const TensorHandle handle : handles) {
    const auto group = registry.groupOf(handle);
    for (size_t member = 1; member < group.size(); ++member) {
      if (given.contains(group[member])) continue;
      throw invalidArgument("tensor '" + nameOf(registry, handle) + "' travels with '" +
                            nameOf(registry, group[member]) + "': restore the states of both together");
    }
  }
}

}  // namespace

KeptStates keptStates(const TensorRegistry& registry, TensorHandle handle) {
  checkIdle(registry, handle);
  const SentRange sent = registry.sentRange(handle);
  KeptStates kept;
  const auto group = registry.groupOf(handle);
  kept.steps = registry.steps(group.empty() ? handle : group.front());
  std::map<std::string, size_t> states;
  within(stretchesOf(*sent.tensor), sent.range, [&](const Stretch& stretch) {
    if (stretch.role) {
      for (const CodecState& state : codecOf(*sent.tensor, *stretch.role).states())
        states[state.name] = state.block;
    }
    if (!kept.stretches.empty() && kept.stretches.back().role == stretch.role &&
        kept.stretches.back().factor == stretch.factor) {
      kept.stretches.back().range.count += stretch.range.count;
    } else {
      kept.stretches.push_back(stretch);
    }
  });
  for (const auto& [name, block] : states) kept.states.push_back({name, block});
  return kept;
}

void readState(const TensorRegistry& registry, const StateStore& store, TensorHandle handle,
               const CodecState& state, std::span<float> values) {
  checkIdle(registry, handle);
  const SentRange sent = registry.sentRange(handle);
  if (values.size() != state.count(sent.range.count)) {
    throw invalidArgument("tensor '" + nameOf(registry, handle) + "' has " +
                          std::to_string(state.count(sent.range.count)) + " elements, not " +
                          std::to_string(values.size()));
  }
  within(stretchesOf(*sent.tensor), sent.range, [&](const Stretch& stretch) {
    const size_t first = stretch.range.first / state.block;
    const auto part = values.subspan(first, state.count(stretch.end()) - first);
    if (stretch.role) {
      store.read(sent.tensor->spec().name, *stretch.role, state.name,
                 (sent.range.first + stretch.range.first) / state.block, part);
    } else {
      std::ranges::fill(part, 0.0f);
    }
  });
}

std::vector<std::vector<float>> restoreStates(TensorRegistry& registry, StateStore& store,
                                              const std::vector<TensorHandle>& handles,
                                              const std::vector<RestoredStates>& restored) {
  if (handles.size() != restored.size())
    throw invalidArgument("one handle for each tensor's states is needed");
  std::map<std::shared_ptr<const Tensor>, std::vector<size_t>> bySent;
  for (size_t index = 0; index < handles.size(); ++index) {
    checkIdle(registry, handles[index]);
    const SentRange sent = registry.sentRange(handles[index]);
    checkFits(nameOf(registry, handles[index]), sent.range.count, restored[index]);
    checkSameBlocks(nameOf(registry, handles[index]), *sent.tensor, restored[index]);
    bySent[sent.tensor].push_back(index);
  }
  checkGroups(registry, handles);

  std::vector<std::vector<float>> unsent(handles.size());
  for (const auto& [tensor, members] : bySent) {
    SentStates to{stretchesOf(*tensor), {}};
    for (const size_t index : members) {
      const SentRange sent = registry.sentRange(handles[index]);
      unsent[index] = moveStretches(byRole(restored[index]), {0, sent.range.count}, to, sent);
    }
    store.erase(tensor->spec().name);
    for (const auto& [key, kept] : to.states)
      store.put(tensor->spec().name, key.first, {key.second, kept.block}, tensor->partitionCounts(),
                kept.values);
  }
  for (size_t index = 0; index < handles.size(); ++index) {
    registry.setSteps(handles[index], restored[index].steps);
    if (const auto group = registry.groupOf(handles[index]); !group.empty())
      registry.setSteps(group.front(), restored[index].steps);
  }
  return unsent;
}

}  // namespace hipress
