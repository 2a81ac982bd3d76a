// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/progress_sleep.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace hipress {
namespace {

constexpr int kDescriptors = 3;

void check(bool done, const std::string& what) {
  if (!done) throw transportError("the progress thread cannot " + what + ": " + std::strerror(errno));
}

}  // namespace

ProgressSleep::ProgressSleep(int mailbox, int worker, Milliseconds interval)
    : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      all_(::epoll_create1(EPOLL_CLOEXEC)) {
  const timespec period{interval.count() / 1000, interval.count() % 1000 * 1'000'000};
  const itimerspec times{period, period};
  check(timer_.get() >= 0 && ::timerfd_settime(timer_.get(), 0, &times, nullptr) == 0, "make a timer");
  check(all_.get() >= 0, "make a list of descriptors");
  for (const int descriptor : {mailbox, worker, timer_.get()}) watch(descriptor);
}

void ProgressSleep::watch(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  check(::epoll_ctl(all_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0, "wait for a descriptor");
}

bool ProgressSleep::sleep() {
  std::array<epoll_event, kDescriptors> events;
  const int ready = ::epoll_wait(all_.get(), events.data(), kDescriptors, -1);
  for (int i = 0; i < ready; ++i) {
    if (events[static_cast<size_t>(i)].data.fd != timer_.get()) continue;
    uint64_t expirations = 0;
    return ::read(timer_.get(), &expirations, sizeof expirations) > 0;
  }
  return false;
}

}  // namespace hipress
