// SPDX-License-Identifier: Apache-2.0
//
// One step of a tensor that travels as PowerSGD factors: two sums over all ranks, with a small dense
// computation before, between and after them. The tensor's operation has no tasks of its own. Each factor is
// a tensor with an operation, the carrier. The end of a carrier starts the next phase, so no thread waits.
#pragma once

#include <functional>
#include <memory>

#include "core/base/buffer_pool.h"
#include "core/base/mutex.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/casync/compute/factor_values.h"
#include "core/casync/run/operation.h"

namespace hipress {

/// The functions of the engine that a step calls. The engine outlives the step.
class FactorRuntime {
 public:
  virtual ~FactorRuntime() = default;
  /// Runs `work` with the help of other threads, or at once if the operation is small.
  virtual void compute(const OperationPointer& operation, std::function<void(Parallel&)> work) = 0;
  /// Starts the carrier of a factor. Throws Error.
  virtual OperationPointer startFactor(TensorHandle factor, Submission&& submission) = 0;
  virtual void endFactors(const OperationPointer& operation, const Failure& failure) = 0;
  /// Reports a failure, which ends the job.
  virtual void failed(const Error& error) = 0;
};

class FactorStep final : public std::enable_shared_from_this<FactorStep> {
 public:
  FactorStep(OperationPointer operation, TensorHandle left, TensorHandle right, BufferPool& pool, int ranks)
      : operation_(std::move(operation)),
        leftTensor_(left),
        rightTensor_(right),
        values_(pool, operation_->values(), ranks) {}

  /// Starts the first phase. The operation is armed already.
  void start(FactorRuntime& runtime);
  /// The carrier in flight; nullptr: no carrier has started.
  std::shared_ptr<const AwaitedOperation> carrier() const;

 private:
  using Step = void (FactorStep::*)(FactorRuntime&, Parallel&);

  void left(FactorRuntime& runtime, Parallel& parallel);
  void right(FactorRuntime& runtime, Parallel& parallel);
  void last(FactorRuntime& runtime, Parallel& parallel);
  void then(FactorRuntime& runtime, Step step);
  void send(FactorRuntime& runtime, TensorHandle tensor, Factor factor, Step next);
  void end(FactorRuntime& runtime, const Failure& failure, bool absent);

  const OperationPointer operation_;
  const TensorHandle leftTensor_;
  const TensorHandle rightTensor_;
  FactorValues values_;  // used by one phase after the other
  mutable Mutex mutex_;
  std::weak_ptr<const Operation> leftCarrier_ HIPRESS_GUARDED_BY(mutex_);
  std::weak_ptr<const Operation> rightCarrier_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
