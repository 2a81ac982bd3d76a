// SPDX-License-Identifier: Apache-2.0
//
// The computation of this rank for one step of a tensor that travels as factors (matrix/power_step.h), with
// its memory and states.
#pragma once

#include <optional>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/linked_values.h"
#include "core/casync/compute/step_values.h"
#include "core/codec/parallel.h"
#include "core/codec/state/state_store.h"
#include "core/matrix/low_rank.h"

namespace hipress {

class FactorValues final : public LinkedValues {
 public:
  /// `values`: of the tensor's operation, which outlives this object. `ranks`: number of ranks in the sums.
  FactorValues(BufferPool& pool, StepValues& values, int ranks);

  /// A rank without values in this step adds nothing to the sums, gets the result, and keeps its residual.
  bool hasValues() const override { return values_.input != nullptr; }

  /// Computes this rank's P. The caller then puts the sum of all ranks in its place.
  void makeFirst(Parallel& parallel) override;
  void* first() const override { return left_.values; }
  /// With the sum of P: computes this rank's Q, and counts this rank in the element after it. The caller then
  /// puts the sums in their place.
  void makeSecond(Parallel& parallel) override;
  void* second() const override { return right_.values; }
  /// With the sum of Q: writes the result and keeps the states. A NaN or an infinity on any rank makes the
  /// result NaN everywhere and leaves the states unchanged, on all ranks.
  void finish(Parallel& parallel) override;

 private:
  const Factoring& factoring() const { return *values_.tensor->factoring(); }
  /// The ranks with values in this step, after the sum of Q.
  float& contributors() const { return right_.values[right_.count()]; }

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
