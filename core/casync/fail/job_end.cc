// SPDX-License-Identifier: Apache-2.0
#include "core/casync/fail/job_end.h"

namespace hipress {

bool JobEnd::fail(const Failure& failure, bool isOwn) {
  const MutexLock lock(mutex_);
  if (stopped_ && !failure_ && !failedWithoutThis_ && !isOwn) failedWithoutThis_ = failure;
  if (failure_ || stopped_) return false;
  failure_ = failure;
  ended_.store(true);
  return true;
}

bool JobEnd::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  ended_.store(true);
  return failure_ != nullptr;
}

bool JobEnd::stopped() const {
  if (!ended_.load()) return false;
  const MutexLock lock(mutex_);
  return stopped_;
}

Failure JobEnd::failedWithoutThis() const {
  const MutexLock lock(mutex_);
  return failedWithoutThis_;
}

void JobEnd::throwIfEnded(const std::string& doing) const {
  if (!ended_.load()) return;
  const MutexLock lock(mutex_);
  if (failure_) throw *failure_;
  if (stopped_) throw Error(ErrorKind::kNotInitialized, doing + "the engine is shut down");
}

}  // namespace hipress
