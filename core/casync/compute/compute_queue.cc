// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/compute_queue.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "core/base/thread_name.h"

namespace hipress {

/// One run(): each thread takes the next index. A helper that comes too late may keep the batch alive.
class Batch {
 public:
  Batch(size_t count, const std::function<void(size_t)>& body) : count_(count), body_(body) {}

  /// Works until no index is left. Then `body_` may be destroyed, and this function does not use it.
  void work() noexcept {
    size_t done = 0;
    std::exception_ptr failed;
    for (size_t index = next_.fetch_add(1); index < count_; index = next_.fetch_add(1), ++done) {
      try {
        body_(index);
      } catch (...) {
        failed = std::current_exception();
      }
    }
    if (done == 0) return;
    const std::lock_guard lock(mutex_);
    done_ += done;
    if (failed) failed_ = failed;
    if (done_ == count_) allDone_.notify_all();
  }

  /// Rethrows the exception of a body, from any thread.
  void wait() {
    std::unique_lock lock(mutex_);
    allDone_.wait(lock, [this] { return done_ == count_; });
    if (failed_) std::rethrow_exception(failed_);
  }

 private:
  const size_t count_;
  const std::function<void(size_t)>& body_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable allDone_;
  size_t done_ = 0;
  std::exception_ptr failed_;
};

ComputeQueue::ComputeQueue(int threads, OnThrow onThrow)
    : lanes_(static_cast<size_t>(std::max(threads, 1))), onThrow_(std::move(onThrow)) {
  for (size_t lane = 0; lane < lanes_; ++lane) {
    threads_.emplace_back([this, lane] { serve(static_cast<int>(lane)); });
  }
}

ComputeQueue::~ComputeQueue() {
  stop();
}

void ComputeQueue::push(int priority, Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    items_.push({priority, sequence_++, std::move(work)});
  }
  ready_.notify_one();
}

/// Gives the batch to idle lanes, at most `most`, before all other work.
void ComputeQueue::askIdleLanes(size_t most, const std::shared_ptr<Batch>& batch) {
  size_t asked = 0;
  {
    const std::lock_guard lock(mutex_);
    // A lane that was just woken for an item counts as idle until it runs.
    const size_t idle = idle_ > items_.size() ? idle_ - items_.size() : 0;
    for (; asked < std::min(most, idle) && !stopped_; ++asked) {
      items_.push({std::numeric_limits<int>::max(), sequence_++, [batch](int) { batch->work(); }});
    }
  }
  for (size_t i = 0; i < asked; ++i) ready_.notify_one();
}

void ComputeQueue::run(size_t count, const std::function<void(size_t)>& body) {
  if (count == 0) return;
  if (count == 1) return body(0);
  const auto batch = std::make_shared<Batch>(count, body);
  askIdleLanes(count - 1, batch);
  batch->work();
  batch->wait();
}

void ComputeQueue::stop() {
  PriorityHeap<Work> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    dropped.swap(items_);
  }
  ready_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void ComputeQueue::serve(int lane) {
  nameThisThread("lane " + std::to_string(lane));
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    ready_.wait(lock, [this] { return stopped_ || !items_.empty(); });
    --idle_;
    if (stopped_) return;
    // top() is const. The item leaves the heap at once, so moving out of it is safe.
    Work work = std::move(const_cast<Prioritised<Work>&>(items_.top()).value);
    items_.pop();
    lock.unlock();
    try {
      work(lane);
    } catch (const std::exception& error) {
      onThrow_(error);
    }
    work = nullptr;
    lock.lock();
  }
}

}  // namespace hipress
