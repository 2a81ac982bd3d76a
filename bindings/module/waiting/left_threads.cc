// SPDX-License-Identifier: Apache-2.0
#include "bindings/module/waiting/left_threads.h"

#include <unistd.h>

#include <algorithm>
#include <list>
#include <mutex>
#include <utility>

#include "core/base/time.h"

namespace hipress::bindings {
namespace {

struct Left {
  std::mutex mutex;
  std::list<LeftThread> threads;
  const pid_t process = ::getpid();
};

/// Never destroyed: a thread that hangs must not end the process while it destroys its static objects.
Left& left() {
  static auto& all = *new Left;
  return all;
}

/// Moves the threads that have ended out of the list, and joins them.
void joinEnded(std::list<LeftThread>& threads) {
  for (auto each = threads.begin(); each != threads.end();) {
    if (each->ended(std::chrono::milliseconds(0))) {
      each->thread.join();
      each = threads.erase(each);
    } else {
      ++each;
    }
  }
}

}  // namespace

void leaveThread(LeftThread thread) {
  const std::lock_guard lock(left().mutex);
  joinEnded(left().threads);
  left().threads.push_back(std::move(thread));
}

size_t joinLeftThreads(std::chrono::milliseconds limit) {
  if (left().process != ::getpid()) return 0;  // the threads are in the parent
  const std::lock_guard lock(left().mutex);
  const TimePoint deadline = Clock::now() + limit;
  for (const LeftThread& each : left().threads) {
    const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    each.ended(std::max(rest, std::chrono::milliseconds(0)));
  }
  joinEnded(left().threads);
  return left().threads.size();
}

}  // namespace hipress::bindings
