// SPDX-License-Identifier: Apache-2.0
//
// What waits for one peer, and what of it goes next: LinkQueue (core/casync/link_queue.h) without the
// messages, for a simulated clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "core/casync/link_queue.h"

namespace hipress {

struct OutgoingMessage {
  uint32_t instance = 0;
  uint32_t task = 0;
  double payload = 0;  ///< Bytes, without the header.
  double share = 1;    ///< For how much of a message it counts; see representativeGraph().
  double arrivingShare = 1;
};

class OutgoingQueue {
 public:
  enum class Hold : uint8_t { kEmpty, kWindow, kGather };

  OutgoingQueue(double windowBytes, const BundleOptions& bundle)
      : windowBytes_(windowBytes), bundle_(bundle) {}

  void push(int priority, const OutgoingMessage& message, double now);

  /// What goes now as one, in flight from here on: nothing in `messages` if nothing does, see hold().
  void next(double now, std::vector<OutgoingMessage>& messages);
  Hold hold() const { return hold_; }
  double due() const { return due_; }

  /// What next() gave is out: `bytes` by bytesOf(), and messages by messagesOf().
  void sent(double bytes, double messages);

  static double bytesOf(const OutgoingMessage& message);
  /// As how many they count that go together: one at most.
  static double messagesOf(const std::vector<OutgoingMessage>& messages);

 private:
  struct Waiting {
    int priority = 0;
    uint64_t sequence = 0;
    OutgoingMessage message;
    bool operator<(const Waiting& other) const {
      return priority != other.priority ? priority < other.priority : sequence > other.sequence;
    }
  };
  using Heap = std::priority_queue<Waiting>;

  bool isSmall(const OutgoingMessage& message) const;
  static double bytesInBundle(const OutgoingMessage& message);
  bool fits(const OutgoingMessage& message) const;

  const double windowBytes_;
  const BundleOptions bundle_;
  Heap small_;
  Heap large_;
  double smallBytes_ = 0;
  double due_ = 0;
  Hold hold_ = Hold::kEmpty;
  uint64_t sequence_ = 0;
  double inFlight_ = 0;
  size_t flying_ = 0;
  double flyingShare_ = 0;  // of whole messages
};

}  // namespace hipress
