// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/state_handover.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace hipress {
namespace {

/// The name that codecs give to the values that they dropped and will send later.
const std::string kResidual = "residual";

constexpr std::array kRoles = {StateRole::kWorker, StateRole::kAggregator};

/// A stretch of elements, and the role in which this rank encodes it.
struct Stretch {
  Partition range;
  std::optional<StateRole> role;  ///< Nothing: it does not encode them.
  double factor = 1.0;            ///< By which a rank's values are multiplied in the encoded values.

  size_t end() const { return range.first + range.count; }
  bool operator==(const Stretch& other) const {
    return range.first == other.range.first && range.count == other.range.count && role == other.role &&
           factor == other.factor;
  }
};

std::vector<Stretch> stretchesOf(const Tensor& tensor) {
  std::vector<Stretch> stretches;
  for (const TensorPartition& partition : tensor.partitions())
    stretches.push_back({partition.range, {}, tensor.inputFactor()});
  for (const Task& task : tensor.graph().tasks()) {
    if (task.primitive != Primitive::kEncode) continue;
    if (tensor.partitions()[task.partition].raw || tensor.graph().messages()[task.message].plain) continue;
    Stretch& stretch = stretches[task.partition];
    const bool own = task.encodeAs == EncodeAs::kContribution;
    stretch.role = own ? StateRole::kWorker : StateRole::kAggregator;
    if (task.encodeAs == EncodeAs::kResult) stretch.factor *= tensor.aggregateFactor();
  }
  return stretches;
}

const Codec& codecOf(const Tensor& tensor, StateRole role) {
  return role == StateRole::kWorker ? *tensor.codec() : *tensor.aggregateCodec();
}

bool keeps(const Tensor& tensor, StateRole role, const std::string& state) {
  const auto states = codecOf(tensor, role).states();
  return std::ranges::find(states, state) != states.end();
}

bool remembersAlike(const Tensor& before, const Tensor& after) {
  return std::ranges::all_of(kRoles, [&](StateRole role) {
    return std::ranges::equal(codecOf(before, role).states(), codecOf(after, role).states());
  });
}

/// The states of a tensor, by role and name.
using Remembered = std::map<std::pair<StateRole, std::string>, std::vector<float>>;

Remembered takeAll(StateStore& states, const std::string& tensor) {
  Remembered remembered;
  for (const StateStore::Entry& entry : states.entries(tensor))
    remembered[{entry.role, entry.state}] = states.take(tensor, entry.role, entry.state);
  return remembered;
}

/// A stretch of one tensor that was encoded in one way and is now encoded in another.
struct Change {
  const Stretch& from;
  const Stretch& to;
  size_t before;  ///< Its first element in the tensor that was sent,
  size_t after;   ///< in the tensor that is sent now,
  size_t own;     ///< and in the tensor itself.
  size_t count;
};

/// to += from · factor. Where `to` was empty and the factor is 1, the bits are those of `from`.
void addScaled(std::span<const float> from, double factor, size_t first, size_t size,
               std::vector<float>& to) {
  to.resize(size);
  for (size_t i = 0; i < from.size(); ++i) {
    float& sum = to[first + i];
    sum = static_cast<float>(static_cast<double>(sum) + static_cast<double>(from[i]) * factor);
  }
}

/// Returns the residual that no role keeps.
std::vector<float> move(const Remembered& remembered, const Change& change, const Tensor& after,
                        size_t ownCount, Remembered& placed) {
  std::vector<float> unsent;
  const auto size = static_cast<size_t>(after.spec().count);
  for (const auto& [key, values] : remembered) {
    const auto& [role, state] = key;
    const auto old = std::span(values).subspan(change.before, change.count);
    if (std::ranges::all_of(old, [](float value) { return value == 0.0f; })) continue;
    if (state != kResidual) {
      if (change.to.role == role && keeps(after, role, state))
        addScaled(old, 1.0, change.after, size, placed[key]);
      continue;
    }
    const bool kept = change.to.role && keeps(after, *change.to.role, state);
    const double wanted = kept ? change.to.factor : 1.0;
    // Values that were multiplied by 0 would never have been sent.
    const double factor = change.from.factor == 0.0 ? 0.0 : wanted / change.from.factor;
    if (kept) {
      addScaled(old, factor, change.after, size, placed[{*change.to.role, state}]);
    } else {
      addScaled(old, factor, change.own, ownCount, unsent);
    }
  }
  return unsent;
}

void addTo(std::vector<float>& sum, const std::vector<float>& values) {
  sum.resize(std::max(sum.size(), values.size()));
  for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

bool isWhole(const SentRange& part) {
  return part.range.count == part.tensor->spec().count;
}

bool isAsBefore(const Tensor& before, const Tensor& after) {
  return before.spec().name == after.spec().name && remembersAlike(before, after) &&
         stretchesOf(before) == stretchesOf(after);
}

struct SentStates {
  std::vector<Stretch> stretches;
  Remembered states;
};

/// Both lists of boundaries side by side: each piece lies within one old and one new stretch.
std::vector<float> moveStretches(const SentStates& from, const SentRange& before, SentStates& to,
                                 const SentRange& after) {
  std::vector<float> unsent;
  const size_t count = before.range.count;
  for (size_t own = 0, a = 0, b = 0; own < count;) {
    while (from.stretches[a].end() <= before.range.first + own) ++a;
    while (to.stretches[b].end() <= after.range.first + own) ++b;
    const Stretch& old = from.stretches[a];
    const Stretch& next = to.stretches[b];
    const size_t end = std::min({count, old.end() - before.range.first, next.end() - after.range.first});
    const Change change{old, next, before.range.first + own, after.range.first + own, own, end - own};
    addTo(unsent, move(from.states, change, *after.tensor, count, to.states));
    own = end;
  }
  return unsent;
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
      // One by one: while they move, states take twice their memory.
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
    unsent[index] = moveStretches(old->second, before, next, after);
  }
  for (const auto& [tensor, next] : to) {
    for (const auto& [key, values] : next.states)
      states_.put(tensor->spec().name, key.first, key.second, tensor->partitionCounts(), values);
  }
}

}  // namespace hipress
