// SPDX-License-Identifier: Apache-2.0
//
// The end of the job on this rank: by its first failure, or by shutdown().
#pragma once

#include <atomic>
#include <string>

#include "core/base/failure.h"
#include "core/base/mutex.h"

namespace hipress {

class JobEnd {
 public:
  /// Returns false if the job has ended already. If shutdown() came first, a failure of another rank (`isOwn`
  /// is false) goes to failedWithoutThis().
  bool fail(const Failure& failure, bool isOwn);
  /// Called when shutdown() begins. Returns true if the job has failed before.
  bool stop();

  bool stopped() const;
  /// The failure of other ranks while this rank, after its goodbye, waited for them; nullptr: no failure.
  Failure failedWithoutThis() const;

  /// Throws the first failure, or NotInitialized after shutdown(). `doing` begins the message of the latter.
  void throwIfEnded(const std::string& doing = {}) const;

 private:
  mutable Mutex mutex_;
  Failure failure_ HIPRESS_GUARDED_BY(mutex_);
  Failure failedWithoutThis_ HIPRESS_GUARDED_BY(mutex_);
  bool stopped_ HIPRESS_GUARDED_BY(mutex_) = false;
  std::atomic<bool> ended_{false};  // by failure or shutdown(); a submission reads only this
};

}  // namespace hipress
