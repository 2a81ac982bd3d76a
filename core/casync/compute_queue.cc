// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute_queue.h"

#include <utility>

namespace hipress {

ComputeQueue::ComputeQueue(int threads) {
  for (int lane = 0; lane < (threads < 1 ? 1 : threads); ++lane) {
    threads_.emplace_back([this, lane] { run(lane); });
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

void ComputeQueue::stop() {
  std::priority_queue<Item> dropped;
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

void ComputeQueue::run(int lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    ready_.wait(lock, [this] { return stopped_ || !items_.empty(); });
    if (stopped_) return;
    // top() is const; the item is removed at once, so moving out of it is safe.
    Work work = std::move(const_cast<Item&>(items_.top()).work);
    items_.pop();
    lock.unlock();
    work(lane);
    work = nullptr;
    lock.lock();
  }
}

}  // namespace hipress
