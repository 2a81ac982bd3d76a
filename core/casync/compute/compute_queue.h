// SPDX-License-Identifier: Apache-2.0
//
// Q_comp: a small pool of threads runs encodes, merges and decodes that are ready, higher priority first.
// Idle threads help with one large encode or decode.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
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
  /// `lane`: the index of the thread that runs the work.
  using Work = InlineFunction<void(int lane)>;
  /// Called on a lane whose work has thrown: no caller waits for the work.
  using OnThrow = std::function<void(const std::exception&)>;

  ComputeQueue(int threads, OnThrow onThrow);
  ~ComputeQueue() override;
  ComputeQueue(const ComputeQueue&) = delete;
  ComputeQueue& operator=(const ComputeQueue&) = delete;

  /// Thread-safe. Equal priorities run in the order of their push(). After stop() the call does nothing.
  void push(int priority, Work work);

  size_t threads() const override { return lanes_; }

  /// The calling thread, a lane or another one, works itself, with the help of idle lanes. It waits only for
  /// bodies that a lane has begun, so it ends even if all lanes are busy or stopped.
  void run(size_t count, const std::function<void(size_t)>& body) override;

  /// Drops work that has not begun and waits for work that has. Idempotent.
  void stop();

 private:
  void serve(int lane);
  void askIdleLanes(size_t most, const std::shared_ptr<class Batch>& batch);

  const size_t lanes_;
  const OnThrow onThrow_;
  std::mutex mutex_;
  std::condition_variable ready_;
  PriorityHeap<Work> items_;
  uint64_t sequence_ = 0;
  size_t idle_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace hipress
