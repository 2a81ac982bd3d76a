// SPDX-License-Identifier: Apache-2.0
//
// Through a mailbox other threads hand commands, in order, to a progress thread; a file descriptor wakes it.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "core/base/inline_function.h"
#include "core/base/unique_fd.h"

namespace hipress {

class Mailbox {
 public:
  /// Large enough for a transport's pointer and a request.
  using Command = InlineFunction<void(), 144>;

  Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Thread-safe. False once the mailbox is shut: the command was not taken and will not run.
  bool post(Command&& command) { return put(std::move(command), true); }

  /// The same for a command that an owner who sleeps may find when something else wakes it.
  bool postPatiently(Command&& command) { return put(std::move(command), false); }

  /// Puts all commands so far, in order, into `commands`, whose memory is used again; the owner is awake.
  void take(std::vector<Command>& commands);

  /// To be called before sleeping until wakeFd() is readable: only a thread that sleeps is woken, because
  /// that is a system call on both sides. False if commands wait: do not sleep, take() them. `forAll`:
  /// patient commands wake the owner, too.
  bool prepareToSleep(bool forAll = true);

  /// Takes no more commands; returns the commands that were not taken yet.
  std::vector<Command> shut();

  /// Readable when a command came for an owner that sleeps.
  int wakeFd() const { return fd_.get(); }

 private:
  bool put(Command&& command, bool wakes);

  const UniqueFd fd_;
  std::mutex mutex_;  // guards everything below
  std::vector<Command> commands_;
  bool asleep_ = false;  // or about to be
  bool forAll_ = true;   // patient commands wake, too
  bool woken_ = false;   // the descriptor is readable
  bool shut_ = false;
};

}  // namespace hipress
