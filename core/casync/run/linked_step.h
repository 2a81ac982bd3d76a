// SPDX-License-Identifier: Apache-2.0
//
// One step of a tensor that is sent as two linked tensors, one after the other: PowerSGD's factors, or what
// ranks agree on and the levels that they add. A small computation stands before, between and after them. The
// tensor's operation has no tasks of its own. Each linked tensor has an operation, the carrier, whose end
// starts what follows: no thread waits.
#pragma once

#include <functional>
#include <memory>

#include "core/base/mutex.h"
#include "core/casync/agree/tensor_registry.h"
#include "core/casync/compute/linked_values.h"
#include "core/casync/run/operation.h"

namespace hipress {

/// The functions of the engine that a step calls. The engine outlives the step.
class LinkedRuntime {
 public:
  virtual ~LinkedRuntime() = default;
  /// Runs it with other threads' help, at once if the operation is small.
  virtual void compute(const OperationPointer& operation, std::function<void(Parallel&)> work) = 0;
  /// Throws Error.
  virtual OperationPointer startLinked(TensorHandle tensor, Submission&& submission) = 0;
  virtual void endLinked(const OperationPointer& operation, const Failure& failure) = 0;
  /// Ends the job.
  virtual void failed(const Error& error) = 0;
};

class LinkedStep final : public std::enable_shared_from_this<LinkedStep> {
 public:
  /// `values` are of the operation.
  LinkedStep(OperationPointer operation, TensorHandle first, TensorHandle second,
             std::unique_ptr<LinkedValues> values)
      : operation_(std::move(operation)),
        firstTensor_(first),
        secondTensor_(second),
        values_(std::move(values)) {}

  /// The operation is armed.
  void start(LinkedRuntime& runtime);
  /// The linked tensor on its way; nullptr: none has been.
  std::shared_ptr<const AwaitedOperation> carrier() const;

 private:
  using Step = void (LinkedStep::*)(LinkedRuntime&, Parallel&);

  void first(LinkedRuntime& runtime, Parallel& parallel);
  void second(LinkedRuntime& runtime, Parallel& parallel);
  void last(LinkedRuntime& runtime, Parallel& parallel);
  void then(LinkedRuntime& runtime, Step step);
  void send(LinkedRuntime& runtime, TensorHandle tensor, void* values, Step next);
  void end(LinkedRuntime& runtime, const Failure& failure, bool absent);

  const OperationPointer operation_;
  const TensorHandle firstTensor_;
  const TensorHandle secondTensor_;
  std::unique_ptr<LinkedValues> values_;  // one phase after the other
  mutable Mutex mutex_;
  std::weak_ptr<const Operation> firstCarrier_ HIPRESS_GUARDED_BY(mutex_);
  std::weak_ptr<const Operation> secondCarrier_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
