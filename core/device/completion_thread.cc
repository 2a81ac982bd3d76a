// SPDX-License-Identifier: Apache-2.0
#include "core/device/completion_thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "core/base/thread_name.h"

namespace hipress {

namespace {

struct Item {
  CompletionThread::Reached reached;
  EndCallback callback;
};

}  // namespace

/// Shared by the thread and its owner, because a device that hangs must not keep the owner from ending.
struct CompletionThread::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  bool calling = false;
  bool waiting = false;
  bool stopped = false;
  bool abandoned = false;
};

CompletionThread::CompletionThread() : shared_(std::make_shared<Shared>()) {
  thread_ = std::thread([shared = shared_] { serve(shared); });
}

CompletionThread::~CompletionThread() {
  stop(Milliseconds(0));
}

void CompletionThread::push(Reached reached, EndCallback callback) {
  {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->stopped) {
      shared_->items.push_back({std::move(reached), std::move(callback)});
      callback = nullptr;
    }
  }
  if (callback) return callback(std::make_shared<Error>(ErrorKind::kNotInitialized, "the device was closed"));
  shared_->changed.notify_all();
}

bool CompletionThread::stop(Milliseconds limit) {
  if (!thread_.joinable()) return !shared_->abandoned;
  {
    std::unique_lock lock(shared_->mutex);
    shared_->stopped = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, limit, [this] { return shared_->items.empty() && !shared_->waiting; });
    if (!shared_->items.empty() || shared_->waiting) {
      shared_->changed.wait(lock, [this] { return !shared_->calling; });
      shared_->abandoned = true;
    }
  }
  if (shared_->abandoned) {
    thread_.detach();
    return false;
  }
  thread_.join();
  return true;
}

void CompletionThread::serve(const std::shared_ptr<Shared>& shared) {
  nameThisThread("device");
  std::unique_lock lock(shared->mutex);
  for (;;) {
    shared->changed.wait(lock, [&] { return shared->stopped || !shared->items.empty(); });
    if (shared->items.empty()) return;
    Item item = std::move(shared->items.front());
    shared->items.pop_front();
    shared->waiting = true;
    lock.unlock();
    const Failure failure = item.reached();
    lock.lock();
    if (!shared->abandoned) {
      shared->calling = true;
      lock.unlock();
      item.callback(failure);
      lock.lock();
      shared->calling = false;
    }
    lock.unlock();
    item = {};  // destroys the item's objects before any thread learns that all work is done
    lock.lock();
    shared->waiting = false;
    shared->changed.notify_all();
  }
}

}  // namespace hipress
