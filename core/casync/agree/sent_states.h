// SPDX-License-Identifier: Apache-2.0
//
// Codec states with the way in which their tensor travels, and the move of states to another way. Codec,
// topology, partitions and group decide which rank encodes an element, in which role and with which factor.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/casync/graph/tensor.h"
#include "core/codec/state/state_store.h"

namespace hipress {

/// A contiguous range of elements, and the role in which this rank encodes it.
struct Stretch {
  Partition range;
  std::optional<StateRole> role;  ///< Empty: this rank does not encode them.
  double factor = 1.0;            ///< The encoded values are this rank's values times the factor.

  size_t end() const { return range.first + range.count; }
  bool operator==(const Stretch& other) const {
    return range.first == other.range.first && range.count == other.range.count && role == other.role &&
           factor == other.factor;
  }
};

/// The stretches of all elements of a tensor, in order.
std::vector<Stretch> stretchesOf(const Tensor& tensor);

/// The codec of a role.
const Codec& codecOf(const Tensor& tensor, StateRole role);

/// The values of a state; `block` elements of the tensor share one (CodecState).
struct StateValues {
  size_t block = 1;
  std::vector<float> values;
};

/// The states of a tensor, by role and name.
using Remembered = std::map<std::pair<StateRole, std::string>, StateValues>;

struct SentStates {
  std::vector<Stretch> stretches;
  Remembered states;
};

/// The place of a tensor's elements in the tensor that travels: this tensor, or its group's tensor.
struct SentRange {
  std::shared_ptr<const Tensor> tensor;
  Partition range;
};

/// Adds states of a tensor to `to`: the states of elements `before` in `from` go to elements `after` in `to`.
/// Returns the residual of elements that this rank no longer encodes with error feedback, in the unit of its
/// values; empty: no residual.
std::vector<float> moveStretches(const SentStates& from, const Partition& before, SentStates& to,
                                 const SentRange& after);

}  // namespace hipress
