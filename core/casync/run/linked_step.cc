// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/linked_step.h"

#include <exception>
#include <string>
#include <utility>

namespace hipress {

void LinkedStep::start(LinkedRuntime& runtime) {
  then(runtime, &LinkedStep::first);
}

void LinkedStep::first(LinkedRuntime& runtime, Parallel& parallel) {
  values_->makeFirst(parallel);
  send(runtime, firstTensor_, values_->first(), &LinkedStep::second);
}

void LinkedStep::second(LinkedRuntime& runtime, Parallel& parallel) {
  values_->makeSecond(parallel);
  send(runtime, secondTensor_, values_->second(), &LinkedStep::last);
}

void LinkedStep::last(LinkedRuntime& runtime, Parallel& parallel) {
  values_->finish(parallel);
  values_.reset();  // before the end, after which the next step may take as much memory
  end(runtime, nullptr, false);
}

/// On a lane, or on a thread that can do nothing with an exception.
void LinkedStep::then(LinkedRuntime& runtime, Step step) {
  runtime.compute(operation_, [self = shared_from_this(), &runtime, step](Parallel& parallel) {
    if (self->operation_->finished()) return self->end(runtime, self->operation_->failure(), false);
    try {
      ((*self).*step)(runtime, parallel);
    } catch (const Error& error) {
      runtime.failed(error);
    } catch (const std::exception& error) {
      runtime.failed({ErrorKind::kTransport, "tensor '" + self->operation_->tensor().spec().name +
                                                 "' could not be computed: " + error.what()});
    }
  });
}

void LinkedStep::send(LinkedRuntime& runtime, TensorHandle tensor, void* values, Step next) {
  Submission submission;
  submission.input = values_->hasValues() ? values : nullptr;
  submission.output = values;
  submission.keepAlive = shared_from_this();
  submission.updates = operation_->values().updates;
  submission.inner = true;
  submission.onDone = [self = shared_from_this(), &runtime, next](const Failure& failure, bool absent) {
    // No rank has values, as all of them know now.
    if (failure || absent) return self->end(runtime, failure, absent);
    self->then(runtime, next);
  };
  try {
    const OperationPointer started = runtime.startLinked(tensor, std::move(submission));
    const MutexLock lock(mutex_);
    // The first one may have ended by now, and the second one have begun.
    (tensor == firstTensor_ ? firstCarrier_ : secondCarrier_) = started;
  } catch (const Error& error) {
    // The submission has succeeded: its wait throws it, as every later failure.
    end(runtime, std::make_shared<Error>(error), false);
  }
}

void LinkedStep::end(LinkedRuntime& runtime, const Failure& failure, bool absent) {
  operation_->endInGroup(failure != nullptr, absent);
  runtime.endLinked(operation_, failure);
}

std::shared_ptr<const AwaitedOperation> LinkedStep::carrier() const {
  const MutexLock lock(mutex_);
  const auto second = secondCarrier_.lock();
  return second != nullptr ? second : firstCarrier_.lock();
}

}  // namespace hipress
