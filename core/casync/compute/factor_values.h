// SPDX-License-Identifier: Apache-2.0
//
// What one step of a tensor that is sent as factors computes on this rank (matrix/power_step.h), with the
// memory and the states for it.
#pragma once

#include <optional>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/step_values.h"
#include "core/codec/parallel.h"
#include "core/codec/state/state_store.h"
#include "core/matrix/low_rank.h"

namespace hipress {

class FactorValues {
 public:
  /// `values`: of the tensor's operation, which outlives this. `ranks`: how many sum their factors.
  FactorValues(BufferPool& pool, StepValues& values, int ranks);

  /// A rank without values in this step adds nothing to the sums and gets the result. Its residual loses the
  /// result, as if its values were zeros.
  bool hasValues() const { return values_.input != nullptr; }
  Factor left() const { return left_; }
  Factor right() const { return right_; }

  /// Makes this rank's P, in left(), where the sum is to be.
  void makeLeft(Parallel& parallel);
  /// left() is the sum now: makes this rank's Q, in right(), where the sum is to be.
  void makeRight(Parallel& parallel);
  /// right() is the sum now: writes the result and keeps the states. Not-a-number and infinity on any rank
  /// make the result NaN everywhere and leave the states as they were, on all ranks.
  void finish(Parallel& parallel);

 private:
  const Factoring& factoring() const { return *values_.tensor->factoring(); }

  BufferPool& pool_;
  StepValues& values_;
  const int ranks_;
  BufferPool::Buffer memory_;           // of both factors
  BufferPool::Buffer unsaved_;          // of the matrix, where no residual is kept
  std::optional<StateLease> residual_;  // the matrix is the new residual
  std::optional<StateLease> rightOfStates_;
  float* matrix_ = nullptr;
  Factor left_;
  Factor right_;
};

}  // namespace hipress
