// SPDX-License-Identifier: Apache-2.0
//
// The counters of a transport. Its progress thread writes them, and any thread reads them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/transport/transport.h"

namespace hipress {

class TransportStatistics {
 public:
  void sent(size_t messages, size_t payloadBytes) {
    add(bytesSent_, payloadBytes + messages * kMessageHeaderBytes);
    add(messagesSent_, messages);
    if (messages > 1) add(bundlesSent_, 1);
  }
  void received(size_t payloadBytes) {
    add(bytesReceived_, payloadBytes + kMessageHeaderBytes);
    add(messagesReceived_, 1);
  }
  /// Counts a payload that the rank keeps until its receive is posted.
  void kept(size_t bytes) {
    add(unexpected_, bytes);
    unexpectedPeak_.store(std::max(get(unexpectedPeak_), get(unexpected_)), std::memory_order_relaxed);
  }
  /// Counts messages or packets that are not of this job.
  void dropped(uint64_t count) { add(strangers_, count); }
  void released(size_t bytes) { unexpected_.fetch_sub(bytes, std::memory_order_relaxed); }

  TransportCounters counters() const {
    TransportCounters counters;
    counters.bytesSent = get(bytesSent_);
    counters.bytesReceived = get(bytesReceived_);
    counters.messagesSent = get(messagesSent_);
    counters.messagesReceived = get(messagesReceived_);
    counters.bundlesSent = get(bundlesSent_);
    counters.unexpectedBytes = get(unexpected_);
    counters.unexpectedPeakBytes = get(unexpectedPeak_);
    counters.strangersDropped = get(strangers_);
    return counters;
  }

 private:
  using Count = std::atomic<uint64_t>;
  static void add(Count& count, uint64_t more) { count.fetch_add(more, std::memory_order_relaxed); }
  static uint64_t get(const Count& count) { return count.load(std::memory_order_relaxed); }

  Count bytesSent_{0}, bytesReceived_{0}, messagesSent_{0}, messagesReceived_{0}, bundlesSent_{0};
  Count unexpected_{0}, unexpectedPeak_{0};
  Count strangers_{0};
};

}  // namespace hipress
