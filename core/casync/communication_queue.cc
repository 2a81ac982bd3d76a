// SPDX-License-Identifier: Apache-2.0
#include "core/casync/communication_queue.h"

#include <chrono>
#include <optional>
#include <utility>

namespace hipress {
namespace {

/// A window in which nothing moved for two of these is not waited for.
constexpr std::chrono::milliseconds kLookInterval{50};
constexpr int kQuietLooks = 2;

}  // namespace

CommunicationQueue::CommunicationQueue(Transport& transport, size_t windowBytes)
    : transport_(transport),
      windowBytes_(windowBytes),
      links_(static_cast<size_t>(transport.worldSize())),
      watcher_([this] { watch(); }) {}

CommunicationQueue::~CommunicationQueue() {
  stop();
}

void CommunicationQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  if (watcher_.joinable()) watcher_.join();
}

void CommunicationQueue::push(int priority, SendRequest request, std::function<void()> onStart) {
  Link& link = links_[static_cast<size_t>(request.peer)];
  {
    const std::lock_guard lock(link.mutex);
    link.waiting.push({priority, link.sequence++, std::move(request), std::move(onStart)});
  }
  dispatch(link);
}

// One thread at a time: two could hand over what they took in the wrong order. And never within itself: a
// closed transport answers within send(), and thousands of waiting messages would nest as deeply.
void CommunicationQueue::dispatch(Link& link) {
  for (bool mine = false;; mine = true) {
    std::optional<Item> next;
    size_t bytes = 0;
    uint64_t window = 0;
    bool full = false;
    {
      const std::lock_guard lock(link.mutex);
      if (!mine && link.dispatching) return;
      if (!link.waiting.empty()) {
        bytes = link.waiting.top().request.payload.size() + kMessageHeaderBytes;
        // A message larger than the window goes alone.
        full = link.inFlight > 0 && link.inFlight + bytes > windowBytes_;
      }
      link.dispatching = bytes > 0 && !full;
      if (link.dispatching) {
        link.inFlight += bytes;
        window = link.window;
        next = std::move(const_cast<Item&>(link.waiting.top()));
        link.waiting.pop();
      }
    }
    if (!next) {
      if (full && !blocked_.exchange(true)) {
        const std::lock_guard lock(mutex_);  // not between the watcher's look and its sleep
        changed_.notify_one();
      }
      return;
    }
    next->onStart();
    auto onSent = std::move(next->request.onSent);
    next->request.onSent = [this, &link, bytes, window, onSent = std::move(onSent)](const Failure& failure) {
      {
        const std::lock_guard lock(link.mutex);
        if (link.window == window) link.inFlight -= bytes;
        link.quietLooks = 0;
      }
      // Before the callback: the network should not wait for what completion triggers.
      dispatch(link);
      onSent(failure);
    };
    transport_.send(std::move(next->request));
  }
}

void CommunicationQueue::watch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopped_ || blocked_; });
    if (stopped_ || changed_.wait_for(lock, kLookInterval, [this] { return stopped_; })) return;
    blocked_ = false;
    lock.unlock();
    for (Link& link : links_) {
      if (openNextWindow(link)) dispatch(link);
    }
    lock.lock();
  }
}

bool CommunicationQueue::openNextWindow(Link& link) {
  const std::lock_guard lock(link.mutex);
  if (link.waiting.empty()) {
    link.quietLooks = 0;
    return false;
  }
  blocked_ = true;  // look again
  if (++link.quietLooks <= kQuietLooks) return false;
  link.quietLooks = 0;
  ++link.window;
  link.inFlight = 0;
  return true;
}

}  // namespace hipress
