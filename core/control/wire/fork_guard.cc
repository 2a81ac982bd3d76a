// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace hipress::control {

namespace {

struct Guarded {
  std::mutex mutex;
  std::set<int> fds;
};

void beforeFork();
void afterForkInParent();
void afterForkInChild();

/// Never destroyed, because connections may close while static objects of other files are destroyed.
Guarded& guarded() {
  static Guarded* const kGuarded = [] {
    ::pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
    return new Guarded();
  }();
  return *kGuarded;
}

void beforeFork() {
  guarded().mutex.lock();
}
void afterForkInParent() {
  guarded().mutex.unlock();
}

void afterForkInChild() {  // must not allocate or lock: other threads' locks are frozen in the child
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : guarded().fds) {
    if (null < 0 || ::dup3(null, fd, O_CLOEXEC) < 0) ::close(fd);
  }
  if (null >= 0) ::close(null);
  guarded().mutex.unlock();
}

}  // namespace

void guardFromFork(int fd) {
  const std::lock_guard lock(guarded().mutex);
  guarded().fds.insert(fd);
}

void closeGuarded(int fd) {
  const std::lock_guard lock(guarded().mutex);
  guarded().fds.erase(fd);
  ::close(fd);
}

}  // namespace hipress::control
