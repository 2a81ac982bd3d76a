// SPDX-License-Identifier: Apache-2.0
#include "core/transport/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "core/error.h"

namespace hipress {

Mailbox::Mailbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_ < 0) throw transportError(std::string("cannot make an event descriptor: ") + std::strerror(errno));
}

Mailbox::~Mailbox() {
  ::close(fd_);
}

bool Mailbox::post(Command command) {
  const std::lock_guard lock(mutex_);
  if (shut_) return false;
  commands_.push_back(std::move(command));
  if (commands_.size() == 1) {
    // Under the lock: a wake-up that comes after its command was taken would stay, and keep the progress
    // thread awake until the next command.
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
  }
  return true;
}

std::vector<Mailbox::Command> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  if (commands_.empty()) return {};
  uint64_t count = 0;
  [[maybe_unused]] const auto read = ::read(fd_, &count, sizeof count);
  return std::exchange(commands_, {});
}

std::vector<Mailbox::Command> Mailbox::shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  return std::exchange(commands_, {});
}

}  // namespace hipress
