// SPDX-License-Identifier: Apache-2.0
//
// Moves codecs' states when tensors are sent in another way. When codec, topology, partitions or group
// change, a residual changes its place, and the residual of a sum may be left with a rank that encodes the
// sum no more.
#pragma once

#include <utility>
#include <vector>

#include "core/casync/agree/sent_states.h"
#include "core/codec/state/state_store.h"

namespace hipress {

/// Puts this rank's states where its next encoding finds them. Residuals add up: the role in which the rank
/// encodes an element from now on gets the element's residuals of both roles. Another state, such as a
/// velocity, means something to the same role only, and is forgotten elsewhere.
class StateHandover {
 public:
  explicit StateHandover(StateStore& states) : states_(states) {}

  /// A tensor that was sent as `before` and is sent as `after` now. If one tensor of a group is added, all of
  /// the group are.
  void add(SentRange before, SentRange after) { moves_.push_back({std::move(before), std::move(after)}); }

  /// By tensor, in the order of add(): the residual of elements that this rank does not encode with error
  /// feedback any more, in the unit of its values; empty: there is none. The caller adds it to the next
  /// values once, as no state keeps it now.
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
