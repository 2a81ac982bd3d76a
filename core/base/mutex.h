// SPDX-License-Identifier: Apache-2.0
//
// std::mutex, its lock and its condition variable with thread-safety annotations, which libstdc++ lacks.
#pragma once

#include <condition_variable>
#include <mutex>

#include "core/base/thread_annotations.h"

namespace hipress {

class HIPRESS_CAPABILITY("mutex") Mutex {
 public:
  void lock() HIPRESS_ACQUIRE() { mutex_.lock(); }
  void unlock() HIPRESS_RELEASE() { mutex_.unlock(); }
  bool try_lock() HIPRESS_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds the mutex until its end, or between lock() and unlock().
class HIPRESS_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HIPRESS_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() HIPRESS_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() HIPRESS_ACQUIRE() { lock_.lock(); }
  void unlock() HIPRESS_RELEASE() { lock_.unlock(); }

 private:
  friend class ConditionVariable;
  std::unique_lock<std::mutex> lock_;
};

/// A wait may end without a notification. Callers check their condition again in a loop, because the analysis
/// does not see that a predicate runs under the lock.
class ConditionVariable {
 public:
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }
  void wait(MutexLock& lock) { condition_.wait(lock.lock_); }
  /// Returns false if `time` has come.
  template <typename Time>
  bool waitUntil(MutexLock& lock, const Time& time) {
    return condition_.wait_until(lock.lock_, time) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace hipress
