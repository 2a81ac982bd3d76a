// SPDX-License-Identifier: Apache-2.0
//
// Codecs' states with the way in which their tensor is sent, and how they move to another way. Codec,
// topology, partitions and group decide which rank encodes an element, in which role and with which factors.
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

/// The name that codecs give to the values that they dropped and will send later.
inline const std::string kResidual = "residual";

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

/// All elements of a tensor, in order.
std::vector<Stretch> stretchesOf(const Tensor& tensor);

/// The codec that encodes in this role.
const Codec& codecOf(const Tensor& tensor, StateRole role);

/// The states of a tensor, by role and name.
using Remembered = std::map<std::pair<StateRole, std::string>, std::vector<float>>;

struct SentStates {
  std::vector<Stretch> stretches;
  Remembered states;
};

/// Where a tensor's elements are in the tensor that is sent for it: itself, or the tensor of its group.
struct SentRange {
  std::shared_ptr<const Tensor> tensor;
  Partition range;
};

/// Adds the states of the elements `before` of a tensor that was sent as `from` to those of `after`, which
/// are in `to`. Returns the residual of elements that this rank does not encode with error feedback any more,
/// in the unit of its values; empty: there is none.
std::vector<float> moveStretches(const SentStates& from, const Partition& before, SentStates& to,
                                 const SentRange& after);

}  // namespace hipress
