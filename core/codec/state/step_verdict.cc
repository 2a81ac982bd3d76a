// SPDX-License-Identifier: Apache-2.0
#include "core/codec/state/step_verdict.h"

#include <utility>
#include <vector>

namespace hipress {

void StepVerdict::join() {
  const MutexLock lock(mutex_);
  ++running_;
}

void StepVerdict::leave(std::shared_ptr<TensorStates> worker, std::shared_ptr<TensorStates> aggregator,
                        bool finite) {
  const MutexLock lock(mutex_);
  finite_ = finite_ && finite;
  for (auto* states : {&worker, &aggregator}) {
    if (*states) states_.push_back(std::move(*states));
  }
  --running_;
  settle();
}

void StepVerdict::settleAlone(const std::shared_ptr<TensorStates>& states) {
  const MutexLock lock(mutex_);
  if (std::erase(states_, states) > 0) states->settle(finite_);
}

void StepVerdict::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  settle();
}

/// An operation that fails never leaves. The tensors' next operations then drop the new states.
void StepVerdict::settle() {
  if (!closed_ || running_ > 0) return;
  for (const auto& states : states_) states->settle(finite_);
  states_.clear();
}

bool StepVerdict::isKept() const {
  const MutexLock lock(mutex_);
  return closed_ && running_ == 0 && finite_;
}

const std::shared_ptr<StepVerdict>& VerdictByStep::join(uint32_t tensor) {
  if (tensors_.contains(tensor)) end();
  if (open_ == nullptr) open_ = std::make_shared<StepVerdict>();
  tensors_.insert(tensor);
  open_->join();
  return open_;
}

bool VerdictByStep::end() {
  if (open_ == nullptr) return true;
  open_->close();
  tensors_.clear();
  return std::exchange(open_, nullptr)->isKept();
}

}  // namespace hipress
