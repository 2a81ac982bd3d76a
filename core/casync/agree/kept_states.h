// SPDX-License-Identifier: Apache-2.0
//
// What codecs keep of a tensor on this rank, for a checkpoint, and back. It comes with the way in which the
// tensor was sent, so that residuals find their place with another codec, topology, number of partitions or
// group.
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
  /// Of the tensor's own elements; neighbours that are encoded alike are one.
  std::vector<Stretch> stretches;
  /// What its codecs keep here; none where this rank encodes no element.
  std::vector<std::string> states;
};

/// What is put in place of the states that a tensor has.
struct RestoredStates {
  SentSteps steps;
  std::vector<Stretch> stretches;
  std::map<std::string, std::span<const float>> values;  ///< By state, of all elements.
};

/// Throws InvalidArgument for an unknown handle, and if the tensor is in flight.
KeptStates keptStates(const TensorRegistry& registry, TensorHandle handle);

/// Writes one state of all elements, of each in the role in which this rank encodes it. Throws
/// InvalidArgument as above, and for another number of values.
void readState(const TensorRegistry& registry, const StateStore& store, TensorHandle handle,
               const std::string& state, std::span<float> values);

/// Puts `restored` in place of what is kept of these tensors, and goes on with their steps. No rank is asked:
/// all restore the same steps. A residual goes where the next encoding finds it; another state, such as a
/// velocity, to elements that this rank encodes in the same role, with a codec that has it.
///
/// Returns by tensor the residual of elements that this rank does not encode with error feedback, in the unit
/// of its values; empty: there is none. The caller adds it to the tensor's next values, once. Throws
/// InvalidArgument as above, if values do not fit the tensor, and if a group's member is missing; nothing is
/// changed then.
std::vector<std::vector<float>> restoreStates(TensorRegistry& registry, StateStore& store,
                                              const std::vector<TensorHandle>& handles,
                                              const std::vector<RestoredStates>& restored);

}  // namespace hipress
