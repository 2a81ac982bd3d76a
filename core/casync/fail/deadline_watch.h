// SPDX-License-Identifier: Apache-2.0
//
// Looks from time to time at the deadlines of operations that nobody waits for: whoever waits looks himself.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace hipress {

class DeadlineWatch {
 public:
  /// `look` is called on a thread of its own, a few times a second, until it says that nothing is left to
  /// look at; begin() makes it begin again.
  explicit DeadlineWatch(std::function<bool()> look);
  ~DeadlineWatch();
  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;

  /// Thread-safe; the first call makes the thread. Does nothing after stop().
  void begin();
  /// Ends the thread. Idempotent.
  void stop();

 private:
  void run();

  const std::function<bool()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool idle_ = false;  // the thread waits to be asked
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace hipress
