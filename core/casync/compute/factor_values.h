// SPDX-License-Identifier: Apache-2.0
//
// The computation of this rank for one step of a tensor that travels as factors (matrix/power_step.h), with
// its memory and states.
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
  /// `values`: of the tensor's operation, which outlives this object. `ranks`: number of ranks in the sums.
  FactorValues(BufferPool& pool, StepValues& values, int ranks);

  /// A rank without values in this step adds zeros to the sums and gets the result. Its residual loses the
  /// result, as if its values were zeros.
  bool hasValues() const { return values_.input != nullptr; }
  Factor left() const { return left_; }
  Factor right() const { return right_; }

  /// Computes this rank's P into left(). The caller then puts the sum of all ranks there.
  void makeLeft(Parallel& parallel);
  /// With the sum in left(): computes this rank's Q into right(). The caller then puts the sum there.
  void makeRight(Parallel& parallel);
  /// With the sum in right(): writes the result and keeps the states. A NaN or an infinity on any rank makes
  /// the result NaN everywhere and leaves the states unchanged, on all ranks.
  void finish(Parallel& parallel);

 private:
  const Factoring& factoring() const { return *values_.tensor->factoring(); }

  BufferPool& pool_;
  StepValues& values_;
  const int ranks_;
  BufferPool::Buffer memory_;           // of both factors
  BufferPool::Buffer unsaved_;          // of the matrix, if no residual is kept
  std::optional<StateLease> residual_;  // the matrix is the new residual
  std::optional<StateLease> rightOfStates_;
  float* matrix_ = nullptr;
  Factor left_;
  Factor right_;
};

}  // namespace hipress
