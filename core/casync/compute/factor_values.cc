// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/factor_values.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/matrix/power_step.h"

namespace hipress {

FactorValues::FactorValues(BufferPool& pool, StepValues& values, int ranks)
    : pool_(pool), values_(values), ranks_(ranks) {}

void FactorValues::makeFirst(Parallel& parallel) {
  const MatrixShape shape = factoring().shape;
  const size_t rank = factoring().rank;
  memory_ = pool_.take((rank * (shape.rows + shape.columns) + 1) * sizeof(float));
  left_ = {memory_.floats(rank * shape.rows).data(), shape.rows, rank};
  right_ = {left_.values + left_.count(), shape.columns, rank};
  MatrixSource source;
  source.values = values_.input;
  source.dtype = values_.tensor->spec().dtype;
  source.scale = static_cast<float>(values_.tensor->inputFactor());
  if (factoring().errorFeedback && hasValues()) {
    residual_.emplace(values_.workerStates, 0);
    source.residual = residual_->states().before[0];
    matrix_ = residual_->states().after[0];
  } else if (hasValues()) {
    unsaved_ = pool_.take(shape.count() * sizeof(float));
    matrix_ = unsaved_.floats(shape.count()).data();
  }
  if (factoring().warmStart) {
    rightOfStates_.emplace(values_.aggregatorStates, 0);
    std::copy_n(rightOfStates_->states().before[0], right_.count(), right_.values);
  } else {
    std::fill_n(right_.values, right_.count(), 0.0f);
  }
  power::makeLeft(source, shape, right_, values_.step, matrix_, left_, &parallel);
}

void FactorValues::makeSecond(Parallel& parallel) {
  power::makeRight(matrix_, factoring().shape, left_, right_, &parallel);
  contributors() = 1.0f;
}

void FactorValues::finish(Parallel& parallel) {
  const Tensor& tensor = *values_.tensor;
  // The ranks with values share the sum among their residuals: those of the others stay as they are.
  const float sharers = contributors();
  if (!(sharers >= 1.0f && sharers <= static_cast<float>(ranks_)))
    throw corruptPayload("tensor '" + tensor.spec().name + "': the right factor counts " +
                         std::to_string(sharers) + " of " + std::to_string(ranks_) + " ranks");
  const auto factor = static_cast<float>(tensor.aggregateFactor() * static_cast<double>(sharers));
  if (!power::finish(left_, right_, sharers, factor, residual_ ? matrix_ : nullptr, factoring().shape,
                     tensor.spec().dtype, values_.output, &parallel)) {
    values_.notFinite.store(true, std::memory_order_relaxed);
    return;
  }
  if (residual_) residual_->stage();
  if (!rightOfStates_) return;
  std::copy_n(right_.values, right_.count(), rightOfStates_->states().after[0]);
  rightOfStates_->stage();
}

}  // namespace hipress
