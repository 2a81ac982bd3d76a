// SPDX-License-Identifier: Apache-2.0
//
// What one step of a tensor that is sent as factors computes on this rank (matrix/power_step.h), with the
// memory and the states for it.
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
  /// `values`: of the tensor's operation, which outlives this. `ranks`: how many sum their factors.
  FactorValues(BufferPool& pool, StepValues& values, int ranks);

  /// A rank without values in this step adds nothing to the sums and gets the result. Its residual loses the
  /// result, as if its values were zeros.
  bool hasValues() const override { return values_.input != nullptr; }

  /// This rank's P.
  void makeFirst(Parallel& parallel) override;
  void* first() const override { return left_.values; }
  /// This rank's Q.
  void makeSecond(Parallel& parallel) override;
  void* second() const override { return right_.values; }
  void finish(Parallel& parallel) override;

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
