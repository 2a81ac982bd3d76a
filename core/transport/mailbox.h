// SPDX-License-Identifier: Apache-2.0
//
// A mailbox takes commands of other threads, in order, for a progress thread. A file descriptor wakes it.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "core/base/inline_function.h"
#include "core/base/unique_fd.h"

namespace hipress {

class Mailbox {
 public:
  /// Room for a transport's pointer and a request.
  using Command = InlineFunction<void(), 144>;

  Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Thread-safe. Returns false after shut(): the command was not taken and will not run.
  bool post(Command&& command) { return put(std::move(command), true); }

  /// post() without a wake-up: a sleeping owner finds the command when another event wakes it.
  bool postPatiently(Command&& command) { return put(std::move(command), false); }

  /// Moves all commands so far, in order, into `commands`, whose capacity serves again. The owner is awake.
  void take(std::vector<Command>& commands);

  /// The owner calls this before it sleeps until wakeFd() is readable. A wake-up is a system call on both
  /// sides, so only a sleeping owner gets one. Returns false if commands wait: the owner then calls take()
  /// and does not sleep. `forAll`: patient commands wake the owner, too.
  bool prepareToSleep(bool forAll = true);

  /// Closes the mailbox and returns the commands that are left.
  std::vector<Command> shut();

  /// Readable when a command came for a sleeping owner.
  int wakeFd() const { return fd_.get(); }

 private:
  bool put(Command&& command, bool wakes);

  const UniqueFd fd_;
  std::mutex mutex_;  // guards the members below
  std::vector<Command> commands_;
  bool asleep_ = false;  // the owner sleeps, or is about to
  bool forAll_ = true;   // patient commands wake, too
  bool woken_ = false;   // the descriptor is readable
  bool shut_ = false;
};

}  // namespace hipress
