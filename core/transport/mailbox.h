// SPDX-License-Identifier: Apache-2.0
//
// How other threads hand work to a progress thread: commands in order, and a file descriptor that wakes it.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace hipress {

class Mailbox {
 public:
  using Command = std::function<void()>;

  Mailbox();
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Thread-safe. False once the mailbox is shut: the command was not taken and will not run.
  bool post(Command command);

  /// All commands so far, in order; clears the wake-up.
  std::vector<Command> take();

  /// Takes no more commands; returns those that were not taken yet.
  std::vector<Command> shut();

  /// Readable while commands wait.
  int wakeFd() const { return fd_; }

 private:
  int fd_ = -1;
  std::mutex mutex_;
  std::vector<Command> commands_;
  bool shut_ = false;
};

}  // namespace hipress
