// SPDX-License-Identifier: Apache-2.0
//
// Q_commu: messages that are ready to go. Only a window of bytes per peer is handed to the transport at a
// time; the rest waits here, so that a message of higher priority that becomes ready later still overtakes
// it.
//
// A large message is out only when its receiver has asked for it, and the receiver may ask only after it got
// another message, one that waits here: ranks submit their tensors in any order. So a window in which nothing
// moves for a while does not count any more, and the next one opens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <thread>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

class CommunicationQueue {
 public:
  CommunicationQueue(Transport& transport, size_t windowBytes);
  ~CommunicationQueue();
  CommunicationQueue(const CommunicationQueue&) = delete;
  CommunicationQueue& operator=(const CommunicationQueue&) = delete;

  /// Ends the watcher: a window that nothing moves in stays closed. Idempotent.
  void stop();

  /// Thread-safe. `onStart` runs when the message leaves the queue, before request.onSent can.
  void push(int priority, SendRequest request, std::function<void()> onStart);

 private:
  struct Item {
    int priority = 0;
    uint64_t sequence = 0;
    SendRequest request;
    std::function<void()> onStart;
    bool operator<(const Item& other) const {
      return priority != other.priority ? priority < other.priority : sequence > other.sequence;
    }
  };
  struct Link {
    std::mutex mutex;
    std::priority_queue<Item> waiting;
    uint64_t sequence = 0;
    uint64_t window = 0;       // number of the window that is open
    size_t inFlight = 0;       // bytes of this window
    int quietLooks = 0;        // how often in a row the watcher saw that nothing had moved
    bool dispatching = false;  // some thread is in dispatch(); it sees what others change
  };

  void dispatch(Link& link);
  void watch();
  bool openNextWindow(Link& link);

  Transport& transport_;
  const size_t windowBytes_;
  std::vector<Link> links_;

  std::mutex mutex_;  // of the watcher
  std::condition_variable changed_;
  std::atomic<bool> blocked_{false};  // a window was full; the watcher sleeps while none is
  bool stopped_ = false;
  std::thread watcher_;
};

}  // namespace hipress
