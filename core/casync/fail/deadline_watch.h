// SPDX-License-Identifier: Apache-2.0
//
// Checks the deadlines of operations that no caller waits for. A waiting caller checks its deadline itself.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace hipress {

class DeadlineWatch {
 public:
  /// A separate thread calls `look` a few times a second, until it returns false because there is nothing
  /// left to check. begin() starts it again.
  explicit DeadlineWatch(std::function<bool()> look);
  ~DeadlineWatch();
  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;

  /// Thread-safe; the first call makes the thread. After stop() the call does nothing.
  void begin();
  /// Ends the thread. Idempotent.
  void stop();

 private:
  void run();

  const std::function<bool()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false;
  bool idle_ = false;  // the thread waits for begin()
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace hipress
