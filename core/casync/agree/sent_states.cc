// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/sent_states.h"

#include <algorithm>
#include <bit>
#include <span>

namespace hipress {
namespace {

bool keeps(const Tensor& tensor, StateRole role, const CodecState& state) {
  const auto states = codecOf(tensor, role).states();
  return std::ranges::find(states, state) != states.end();
}

/// A stretch of one tensor whose encoding changes.
struct Change {
  const Stretch& from;
  const Stretch& to;
  size_t before;  ///< First element in the old sent tensor.
  size_t after;   ///< First element in the new sent tensor.
  size_t own;     ///< First element in the tensor itself.
  size_t count;

  /// The values of a state for these elements in the old sent tensor.
  std::span<const float> of(const CodecState& state, const std::vector<float>& values) const {
    return std::span(values).subspan(before / state.block, state.count(count));
  }
  /// Whether the elements begin with a block of the state in both. Partitions do, and members of groups have
  /// states of whole blocks only with blocks of one element (TensorSpec::check).
  bool beginsWithBlock(const CodecState& state) const {
    return before % state.block == 0 && after % state.block == 0;
  }
};

/// to += from · factor. If `to` was zero and the factor is 1, the result has the bits of `from`.
void addScaled(std::span<const float> from, double factor, size_t first, size_t size,
               std::vector<float>& to) {
  to.resize(size);
  for (size_t i = 0; i < from.size(); ++i) {
    float& sum = to[first + i];
    // A sum with 0 would lose the sign of -0.
    sum = sum == 0.0f && factor == 1.0
              ? from[i]
              : static_cast<float>(static_cast<double>(sum) + static_cast<double>(from[i]) * factor);
  }
}

/// Returns the residual that no role keeps.
std::vector<float> move(const Remembered& remembered, const Change& change, const Tensor& after,
                        size_t ownCount, Remembered& placed) {
  std::vector<float> unsent;
  const auto size = static_cast<size_t>(after.spec().count);
  for (const auto& [key, kept] : remembered) {
    const StateRole role = key.first;
    const CodecState state{key.second, kept.block};
    if (!change.beginsWithBlock(state)) continue;
    const auto old = change.of(state, kept.values);
    if (std::ranges::all_of(old, [](float value) { return std::bit_cast<uint32_t>(value) == 0; })) continue;
    if (state.name != kResidual) {
      if (change.to.role != role || !keeps(after, role, state)) continue;
      StateValues& next = placed[key];
      next.block = state.block;
      addScaled(old, 1.0, change.after / state.block, state.count(size), next.values);
      continue;
    }
    const bool isKept = change.to.role && keeps(after, *change.to.role, state);
    const double wanted = isKept ? change.to.factor : 1.0;
    // A factor of 0 would have removed the values from every message.
    const double factor = change.from.factor == 0.0 ? 0.0 : wanted / change.from.factor;
    if (isKept) {
      addScaled(old, factor, change.after, size, placed[{*change.to.role, state.name}].values);
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

}  // namespace

std::vector<Stretch> stretchesOf(const Tensor& tensor) {
  std::vector<Stretch> stretches;
  for (const TensorPartition& partition : tensor.partitions())
    stretches.push_back({partition.range, {}, tensor.inputFactor()});
  if (tensor.isLinked()) stretches.front().role = StateRole::kWorker;
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

/// Walks through both lists of boundaries: each piece is in one old and one new stretch.
std::vector<float> moveStretches(const SentStates& from, const Partition& before, SentStates& to,
                                 const SentRange& after) {
  std::vector<float> unsent;
  const size_t count = before.count;
  for (size_t own = 0, a = 0, b = 0; own < count;) {
    while (from.stretches[a].end() <= before.first + own) ++a;
    while (to.stretches[b].end() <= after.range.first + own) ++b;
    const Stretch& old = from.stretches[a];
    const Stretch& next = to.stretches[b];
    const size_t end = std::min({count, old.end() - before.first, next.end() - after.range.first});
    const Change change{old, next, before.first + own, after.range.first + own, own, end - own};
    addTo(unsent, move(from.states, change, *after.tensor, count, to.states));
    own = end;
  }
  return unsent;
}

}  // namespace hipress
