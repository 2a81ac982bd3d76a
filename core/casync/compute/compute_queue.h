// SPDX-License-Identifier: Apache-2.0
//
// Q_comp: encodes, merges and decodes that are ready, run by a small pool of threads, higher priority first.
// The same threads help with one large encode or decode when they have nothing else to do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/inline_function.h"
#include "core/base/priority_heap.h"
#include "core/codec/parallel.h"

namespace hipress {

class ComputeQueue final : public Parallel {
 public:
  /// `lane` is the index of the thread that runs the work. Must not throw: nobody waits for it.
  using Work = InlineFunction<void(int lane)>;

  explicit ComputeQueue(int threads);
  ~ComputeQueue() override;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;

  /// Thread-safe. Among equal priorities, first come first served. Ignored after stop().
  void push(int priority, Work work);

  size_t threads() const override { return lanes_; }

  /// The caller, a lane or any other thread, works itself and takes in those lanes that are idle. It waits
  /// only for bodies that a lane has begun: also when all lanes are busy, or stopped, this comes to an end.
  void run(size_t count, const std::function<void(size_t)>& body) override;

  /// Drops what has not begun, waits for what has. Idempotent.
  void stop();

 private:
  void serve(int lane);
  void askIdleLanes(size_t most, const std::shared_ptr<class Batch>& batch);

  const size_t lanes_;
  std::mutex mutex_;
  std::condition_variable ready_;
  PriorityHeap<Work> items_;
  uint64_t sequence_ = 0;
  size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hipress
