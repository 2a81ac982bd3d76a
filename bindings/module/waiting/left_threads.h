// SPDX-License-Identifier: Apache-2.0
//
// Threads whose callers have stopped waiting. They own all that they use and end by themselves, but a thread
// that still runs when the process destroys its libraries would crash it. So the interpreter's exit waits for
// them, after shutdown() has ended their calls.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace hipress::bindings {

struct LeftThread {
  std::thread thread;
  /// Waits for at most `limit`. Returns whether the thread's work has ended.
  std::function<bool(std::chrono::milliseconds limit)> ended;
};

/// Thread-safe.
void leaveThread(LeftThread left);

/// Waits for all of them, for `limit` at most. The caller does not hold the GIL. Returns how many still run.
size_t joinLeftThreads(std::chrono::milliseconds limit);

}  // namespace hipress::bindings
