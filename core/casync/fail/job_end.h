// SPDX-License-Identifier: Apache-2.0
//
// How the job ends on this rank: by its first failure, or by shutdown().
#pragma once

#include <atomic>
#include <string>

#include "core/base/failure.h"
#include "core/base/mutex.h"

namespace hipress {

class JobEnd {
 public:
  /// False if the job has ended already. A failure of another rank (`isOwn` is false) after shutdown() is
  /// remembered for failedWithoutThis().
  bool fail(const Failure& failure, bool isOwn);
  /// shutdown() begins. True if the job has failed before.
  bool stop();

  bool stopped() const;
  /// How the other ranks failed while this one had left and waited for them; nullptr: they did not.
  Failure failedWithoutThis() const;

  /// Throws the first failure; after shutdown() NotInitialized, which begins with `doing`.
  void throwIfEnded(const std::string& doing = {}) const;

 private:
  mutable Mutex mutex_;
  Failure failure_ HIPRESS_GUARDED_BY(mutex_);
  Failure failedWithoutThis_ HIPRESS_GUARDED_BY(mutex_);
  bool stopped_ HIPRESS_GUARDED_BY(mutex_) = false;
  std::atomic<bool> ended_{false};  // by either: submissions look at it only
};

}  // namespace hipress
