// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/factor_step.h"

#include <exception>
#include <string>
#include <utility>

namespace hipress {

void FactorStep::start(FactorRuntime& runtime) {
  then(runtime, &FactorStep::left);
}

void FactorStep::left(FactorRuntime& runtime, Parallel& parallel) {
  values_.makeLeft(parallel);
  send(runtime, leftTensor_, values_.left(), &FactorStep::right);
}

void FactorStep::right(FactorRuntime& runtime, Parallel& parallel) {
  values_.makeRight(parallel);
  send(runtime, rightTensor_, values_.right(), &FactorStep::last);
}

void FactorStep::last(FactorRuntime& runtime, Parallel& parallel) {
  values_.finish(parallel);
  end(runtime, nullptr, false);
}

/// The thread may be a lane, or one that cannot handle exceptions: each exception becomes a job failure.
void FactorStep::then(FactorRuntime& runtime, Step step) {
  runtime.compute(operation_, [self = shared_from_this(), &runtime, step](Parallel& parallel) {
    if (self->operation_->finished()) return self->end(runtime, self->operation_->failure(), false);
    try {
      ((*self).*step)(runtime, parallel);
    } catch (const Error& error) {
      runtime.failed(error);
    } catch (const std::exception& error) {
      runtime.failed(
          {ErrorKind::kTransport,
           "the factors of tensor '" + self->operation_->tensor().spec().name + "' failed: " + error.what()});
    }
  });
}

void FactorStep::send(FactorRuntime& runtime, TensorHandle tensor, Factor factor, Step next) {
  Submission submission;
  submission.input = values_.hasValues() ? factor.values : nullptr;
  submission.output = factor.values;
  submission.keepAlive = shared_from_this();
  submission.updates = operation_->values().updates;
  submission.onDone = [self = shared_from_this(), &runtime, next](const Failure& failure, bool absent) {
    // No rank has values: all ranks know this from the factor's step.
    if (failure || absent) return self->end(runtime, failure, absent);
    self->then(runtime, next);
  };
  try {
    const OperationPointer started = runtime.startFactor(tensor, std::move(submission));
    const MutexLock lock(mutex_);
    // By now the left factor may have ended and the right factor started.
    (tensor == leftTensor_ ? leftCarrier_ : rightCarrier_) = started;
  } catch (const Error& error) {
    // The submission has succeeded: its wait throws this error, like every later failure.
    end(runtime, std::make_shared<Error>(error), false);
  }
}

void FactorStep::end(FactorRuntime& runtime, const Failure& failure, bool absent) {
  operation_->endInGroup(absent);
  runtime.endFactors(operation_, failure);
}

std::shared_ptr<const AwaitedOperation> FactorStep::carrier() const {
  const MutexLock lock(mutex_);
  const auto right = rightCarrier_.lock();
  return right != nullptr ? right : leftCarrier_.lock();
}

}  // namespace hipress
