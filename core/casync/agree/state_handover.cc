// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/state_handover.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

namespace hipress {
namespace {

constexpr std::array kRoles = {StateRole::kWorker, StateRole::kAggregator};

bool remembersAlike(const Tensor& before, const Tensor& after) {
  return std::ranges::all_of(kRoles, [&](StateRole role) {
    return std::ranges::equal(codecOf(before, role).states(), codecOf(after, role).states());
  });
}

Remembered takeAll(StateStore& states, const std::string& tensor) {
  Remembered remembered;
  for (const StateStore::Entry& entry : states.entries(tensor))
    remembered[{entry.role, entry.state.name}] = {entry.state.block,
                                                  states.take(tensor, entry.role, entry.state.name)};
  return remembered;
}

bool isWhole(const SentRange& part) {
  return part.range.count == part.tensor->spec().count;
}

bool isAsBefore(const Tensor& before, const Tensor& after) {
  return before.spec().name == after.spec().name && remembersAlike(before, after) &&
         stretchesOf(before) == stretchesOf(after);
}

}  // namespace

std::vector<std::vector<float>> StateHandover::finish() {
  std::vector<std::vector<float>> unsent(moves_.size());
  std::vector<size_t> ofGroups;
  for (size_t index = 0; index < moves_.size(); ++index) {
    const auto& [before, after] = moves_[index];
    if (!isWhole(before) || !isWhole(after)) {
      ofGroups.push_back(index);
    } else if (!isAsBefore(*before.tensor, *after.tensor)) {
      // The tensors move one by one, because states take twice their memory during a move.
      moveAll({index}, unsent);
    }
  }
  moveAll(ofGroups, unsent);
  return unsent;
}

void StateHandover::moveAll(const std::vector<size_t>& indices, std::vector<std::vector<float>>& unsent) {
  std::map<const Tensor*, SentStates> from;
  std::map<const Tensor*, SentStates> to;
  for (const size_t index : indices) {
    const auto& [before, after] = moves_[index];
    const auto [old, first] = from.try_emplace(before.tensor.get());
    if (first) old->second = {stretchesOf(*before.tensor), takeAll(states_, before.tensor->spec().name)};
    SentStates& next = to[after.tensor.get()];
    if (next.stretches.empty()) next.stretches = stretchesOf(*after.tensor);
    unsent[index] = moveStretches(old->second, before.range, next, after);
  }
  for (const auto& [tensor, next] : to) {
    for (const auto& [key, kept] : next.states)
      states_.put(tensor->spec().name, key.first, {key.second, kept.block}, tensor->partitionCounts(),
                  kept.values);
  }
}

}  // namespace hipress
