// SPDX-License-Identifier: Apache-2.0
//
// One step of a tensor that is sent as factors: two sums over all ranks with a small dense computation
// before, between and after them. The tensor's operation has no tasks of its own. Each factor is a tensor
// with an operation, the carrier, whose end starts what follows: no thread waits.
#pragma once

#include <functional>
#include <memory>

#include "core/base/buffer_pool.h"
#include "core/base/mutex.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/casync/compute/factor_values.h"
#include "core/casync/run/operation.h"

namespace hipress {

/// What a step needs of the engine, which outlives it.
class FactorRuntime {
 public:
  virtual ~FactorRuntime() = default;
  /// Runs it with other threads' help, at once if the operation is small.
  virtual void compute(const OperationPointer& operation, std::function<void(Parallel&)> work) = 0;
  /// Throws Error.
  virtual OperationPointer startFactor(TensorHandle factor, Submission&& submission) = 0;
  virtual void endFactors(const OperationPointer& operation, const Failure& failure) = 0;
  /// Ends the job.
  virtual void failed(const Error& error) = 0;
};

class FactorStep final : public std::enable_shared_from_this<FactorStep> {
 public:
  FactorStep(OperationPointer operation, TensorHandle left, TensorHandle right, BufferPool& pool, int ranks)
      : operation_(std::move(operation)),
        leftTensor_(left),
        rightTensor_(right),
        values_(pool, operation_->values(), ranks) {}

  /// The operation is armed.
  void start(FactorRuntime& runtime);
  /// The factor on its way; nullptr: none has been.
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
  FactorValues values_;  // one phase after the other
  mutable Mutex mutex_;
  std::weak_ptr<const Operation> leftCarrier_ HIPRESS_GUARDED_BY(mutex_);
  std::weak_ptr<const Operation> rightCarrier_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
