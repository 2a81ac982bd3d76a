// SPDX-License-Identifier: Apache-2.0
#include "core/transport/mailbox.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace hipress {

Mailbox::Mailbox() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (fd_.get() < 0)
    throw transportError(std::string("cannot make an event descriptor: ") + std::strerror(errno));
}

bool Mailbox::put(Command&& command, bool wakes) {
  const std::lock_guard lock(mutex_);
  if (shut_) return false;
  commands_.push_back(std::move(command));
  if (asleep_ && (wakes || forAll_)) {
    // The lock stays held: a later wake-up could come after its command was taken. It would then keep the
    // progress thread awake until the next command.
    asleep_ = false;
    woken_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
  }
  return true;
}

void Mailbox::take(std::vector<Command>& commands) {
  commands.clear();
  const std::lock_guard lock(mutex_);
  asleep_ = false;
  if (woken_) {
    woken_ = false;
    uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(fd_.get(), &count, sizeof count);
  }
  commands_.swap(commands);
}

bool Mailbox::prepareToSleep(bool forAll) {
  const std::lock_guard lock(mutex_);
  forAll_ = forAll;
  asleep_ = commands_.empty();
  return asleep_;
}

std::vector<Mailbox::Command> Mailbox::shut() {
  const std::lock_guard lock(mutex_);
  shut_ = true;
  return std::exchange(commands_, {});
}

}  // namespace hipress
