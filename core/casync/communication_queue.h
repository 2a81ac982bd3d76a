// SPDX-License-Identifier: Apache-2.0
//
// Q_commu: messages that are ready to go. Only a window of bytes per peer is handed to the transport at a
// time; the rest waits here, so that a message of higher priority that becomes ready later still overtakes
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

class CommunicationQueue {
 public:
  CommunicationQueue(Transport& transport, size_t windowBytes);

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
    size_t inFlight = 0;
  };

  void dispatch(Link& link);

  Transport& transport_;
  const size_t windowBytes_;
  std::vector<Link> links_;
};

}  // namespace hipress
