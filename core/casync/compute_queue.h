// SPDX-License-Identifier: Apache-2.0
//
// Q_comp: encodes, merges and decodes that are ready, run by a small pool of threads, higher priority first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

namespace hipress {

class ComputeQueue {
 public:
  /// `lane` is the index of the thread that runs the work.
  using Work = std::function<void(int lane)>;

  explicit ComputeQueue(int threads);
  ~ComputeQueue();
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;

  /// Thread-safe. Among equal priorities, first come first served. Ignored after stop().
  void push(int priority, Work work);

  /// Drops what has not begun, waits for what has. Idempotent.
  void stop();

 private:
  struct Item {
    int priority = 0;
    uint64_t sequence = 0;
    Work work;
    bool operator<(const Item& other) const {
      return priority != other.priority ? priority < other.priority : sequence > other.sequence;
    }
  };

  void run(int lane);

  std::mutex mutex_;
  std::condition_variable ready_;
  std::priority_queue<Item> items_;
  uint64_t sequence_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hipress
