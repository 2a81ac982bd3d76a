// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/progress_sleep.h"

#include <sys/timerfd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace hipress {

ProgressSleep::ProgressSleep(int mailbox, int worker, Milliseconds interval)
    : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      descriptors_{{{mailbox, POLLIN, 0}, {worker, POLLIN, 0}, {timer_.get(), POLLIN, 0}}} {
  const timespec period{interval.count() / 1000, interval.count() % 1000 * 1'000'000};
  const itimerspec times{period, period};
  if (timer_.get() >= 0 && ::timerfd_settime(timer_.get(), 0, &times, nullptr) == 0) return;
  throw transportError(std::string("the progress thread cannot make a timer: ") + std::strerror(errno));
}

bool ProgressSleep::sleep() {
  if (::poll(descriptors_.data(), descriptors_.size(), -1) <= 0) return false;
  if ((descriptors_.back().revents & POLLIN) == 0) return false;
  uint64_t expirations = 0;
  return ::read(timer_.get(), &expirations, sizeof expirations) > 0;
}

}  // namespace hipress
