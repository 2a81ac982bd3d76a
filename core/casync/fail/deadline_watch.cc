// SPDX-License-Identifier: Apache-2.0
#include "core/casync/fail/deadline_watch.h"

#include <chrono>
#include <utility>

#include "core/base/thread_name.h"

namespace hipress {
namespace {

constexpr std::chrono::milliseconds kInterval{250};

}  // namespace

DeadlineWatch::DeadlineWatch(std::function<bool()> look) : look_(std::move(look)) {}

DeadlineWatch::~DeadlineWatch() {
  stop();
}

void DeadlineWatch::begin() {
  const std::lock_guard lock(mutex_);
  if (stopped_) return;
  asked_ = true;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  // A wake-up costs more than submitting a small tensor, and the running thread will see `asked_` by itself.
  if (idle_) changed_.notify_one();
}

void DeadlineWatch::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void DeadlineWatch::run() {
  nameThisThread("overdue");
  std::unique_lock lock(mutex_);
  for (;;) {
    idle_ = true;
    changed_.wait(lock, [this] { return stopped_ || asked_; });
    idle_ = false;
    asked_ = false;
    for (bool more = true; more;) {
      changed_.wait_for(lock, kInterval, [this] { return stopped_; });
      if (stopped_) return;
      lock.unlock();
      more = look_();
      lock.lock();
    }
  }
}

}  // namespace hipress
