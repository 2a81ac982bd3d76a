// SPDX-License-Identifier: Apache-2.0
//
// Moves codec states when tensors travel in another way from now on. A change of codec, topology, partitions
// or group changes the place of a residual. A rank may also have the residual of a sum that it no longer
// encodes.
#pragma once

#include <utility>
#include <vector>

#include "core/casync/agree/sent_states.h"
#include "core/codec/state/state_store.h"

namespace hipress {

/// Moves this rank's states to where its next encode reads them. Residuals add up: the role in which the rank
/// encodes an element from now on gets the element's residuals of both roles. Another state, such as a
/// velocity, has a meaning in the same role only; otherwise it is dropped.
class StateHandover {
 public:
  explicit StateHandover(StateStore& states) : states_(states) {}

  /// Adds a tensor that travelled as `before` and travels as `after` from now on. With one tensor of a group,
  /// the caller adds all tensors of the group.
  void add(SentRange before, SentRange after) { moves_.push_back({std::move(before), std::move(after)}); }

  /// For each tensor, in the order of add(): the residual of elements that this rank no longer encodes with
  /// error feedback, in the unit of its values; empty: no residual. No state keeps it, so the caller adds it
  /// once, to the next values.
  std::vector<std::vector<float>> finish();

 private:
  struct Move {
    SentRange before;
    SentRange after;
  };

  void moveAll(const std::vector<size_t>& indices, std::vector<std::vector<float>>& unsent);

  StateStore& states_;
  std::vector<Move> moves_;
};

}  // namespace hipress
