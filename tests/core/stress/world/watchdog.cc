// SPDX-License-Identifier: Apache-2.0
#include "tests/core/stress/world/watchdog.h"

#include <utility>

#include "tests/core/stress/world/check.h"

namespace hipress::stress {

Watchdog::Watchdog(std::string what, std::chrono::seconds limit)
    : thread_([this, what = std::move(what), limit] {
        std::unique_lock lock(mutex_);
        const bool ended = changed_.wait_for(lock, limit, [this] { return over_; });
        CHECK(ended, what, "hangs: it has not ended within", limit.count(), "s");
      }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace hipress::stress
