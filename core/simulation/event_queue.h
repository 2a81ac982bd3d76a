// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>

namespace hipress {

enum class EventKind : uint8_t {
  kRelease,    ///< of a gradient on a rank: backward has released it
  kProcessor,  ///< of a machine: the work of a thread is done
  kUplink,     ///< of a host: a chunk is out
  kArrival,    ///< of a chunk
  kDelivery,   ///< of a flight that took longer than its chunks
  kLinger,     ///< of a connection: small messages have waited for their limit
  kTaskDone,   ///< of an instance: a task that took longer than it occupied its thread
};

struct Event {
  double time = 0;
  uint64_t sequence = 0;
  EventKind kind = EventKind::kRelease;
  uint32_t subject = 0;
  uint32_t detail = 0;

  bool operator<(const Event& other) const {
    return time != other.time ? time > other.time : sequence > other.sequence;
  }
};

/// Events in the order of time, and at the same time in the order of push().
class EventQueue {
 public:
  void push(double time, EventKind kind, uint32_t subject, uint32_t detail = 0) {
    events_.push({time, sequence_++, kind, subject, detail});
  }

  bool empty() const { return events_.empty(); }

  Event pop() {
    const Event event = events_.top();
    events_.pop();
    return event;
  }

  uint64_t pushed() const { return sequence_; }

 private:
  std::priority_queue<Event> events_;
  uint64_t sequence_ = 0;
};

}  // namespace hipress
