// SPDX-License-Identifier: Apache-2.0
//
// What becomes of codecs' states when tensors are sent in another way. Who encodes an element, in which role
// and with which factors in it, follows from codec, topology, partitions and group; with them a residual
// changes its place, and a sum's residual may be left with a rank that encodes that sum no more.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/casync/tensor.h"
#include "core/codec/state_store.h"

namespace hipress {

/// A tensor's place in what travels: itself, or its group.
struct TravellingPart {
  std::shared_ptr<const Tensor> tensor;
  Partition range;
};

/// Puts what this rank remembers where its next encoding finds it. Residuals add up: whichever role the rank
/// encodes an element in from now on gets what it had of it in either. Another state, such as a velocity,
/// means something to the same role only, and is forgotten elsewhere.
class StateHandover {
 public:
  explicit StateHandover(StateStore& states) : states_(states) {}

  /// A tensor that travels as `before` until now. If one of a group is added, all of them are.
  void add(TravellingPart before, TravellingPart after) {
    moves_.push_back({std::move(before), std::move(after)});
  }

  /// By tensor, in the order of add(): the residual of elements that this rank does not encode with error
  /// feedback any more, in the unit of its values. It is to be added to them once, as nothing keeps it now.
  /// Empty: there is none.
  std::vector<std::vector<float>> finish();

 private:
  struct Move {
    TravellingPart before;
    TravellingPart after;
  };

  void moveAll(const std::vector<size_t>& indices, std::vector<std::vector<float>>& heldBack);

  StateStore& states_;
  std::vector<Move> moves_;
};

}  // namespace hipress
