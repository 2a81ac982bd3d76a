// SPDX-License-Identifier: Apache-2.0
//
// Saves the codec states of a tensor on this rank for a checkpoint, and restores them. The saved states
// include the way in which the tensor travelled, so that residuals find their place under another codec,
// topology, number of partitions or group.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/casync/agree/sent_states.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/codec/state/state_store.h"

namespace hipress {

struct KeptStates {
  SentSteps steps;
  /// Covers the tensor's own elements; adjacent elements with the same encoding form one stretch.
  std::vector<Stretch> stretches;
  /// The states; empty if this rank encodes no element.
  std::vector<CodecState> states;
};

/// One saved state. `block` elements share a value.
struct RestoredState {
  size_t block = 1;
  std::span<const float> values;
};

/// The states that replace a tensor's states.
struct RestoredStates {
  SentSteps steps;
  std::vector<Stretch> stretches;
  std::map<std::string, RestoredState> values;  ///< By name of the state, for all elements.
};

/// Throws InvalidArgument for an unknown handle, and if the tensor is in flight.
KeptStates keptStates(const TensorRegistry& registry, TensorHandle handle);

/// Writes one state of all elements, each in the role in which this rank encodes the element. Throws the
/// errors of keptStates(), and InvalidArgument for another number of values.
void readState(const TensorRegistry& registry, const StateStore& store, TensorHandle handle,
               const CodecState& state, std::span<float> values);

/// Replaces the states of these tensors by `restored`, and continues their steps. No rank is asked: all ranks
/// restore the same steps. A residual goes to where the next encode reads it. Another state, such as a
/// velocity, goes to the elements that this rank encodes in the same role with a codec that has the state.
///
/// Returns for each tensor the residual of elements that this rank does not encode with error feedback, in
/// the unit of the tensor's values; empty: no residual. The caller adds it once, to the next values. Throws
/// InvalidArgument like keptStates(), if values do not fit the tensor or have other blocks than the codec's
/// state of that name, and if a member of a group is missing; then all states stay as they were.
std::vector<std::vector<float>> restoreStates(TensorRegistry& registry, StateStore& store,
                                              const std::vector<TensorHandle>& handles,
                                              const std::vector<RestoredStates>& restored);

}  // namespace hipress
