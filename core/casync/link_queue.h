// SPDX-License-Identifier: Apache-2.0
//
// What waits for one peer, and what of it goes next. Only a window of bytes is with the transport at a time;
// the rest waits here, so that a message of higher priority that becomes ready later still overtakes it.
//
// A message alone costs about as much as the bytes of a small gradient, so small ones go together: at once if
// the link is idle, for then nothing is won by waiting; otherwise when what is in flight is out, when a
// bundle is full, or when the first of them has waited long enough.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <span>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

struct BundleOptions {
  size_t bytes = size_t{64} << 10;  ///< Of a bundle, at most; 0: every message goes alone.
  size_t messageBytes =
      size_t{16} << 10;  ///< Larger payloads go alone; between ranks of a host 2 KiB at most.
  /// A small message waits for others this long at most. What is in flight is mostly out before: to end the
  /// wait earlier, a thread would be woken too often.
  std::chrono::microseconds linger{5000};
  bool always = false;  ///< The same between ranks of a host.
};

/// Not thread-safe.
class LinkQueue {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using StartCallback = InlineFunction<void()>;

  struct Item {
    SendRequest request;
    StartCallback onStart;
    uint64_t window = 0;  // LinkRounds' own
  };

  /// What goes to the transport as one: a message, or a bundle of several.
  struct Flight {
    std::vector<Item> items;         // highest priority first
    std::vector<MessageView> views;  // of all items
   private:
    friend class LinkQueue;
    size_t bytes = 0;
    uint64_t window = 0;
  };

  /// Why next() gave nothing.
  enum class Hold : uint8_t {
    kEmpty,   // nothing waits
    kWindow,  // the window is full
    kGather,  // small messages wait for others, until due()
  };

  LinkQueue(size_t windowBytes, const BundleOptions& bundle) : windowBytes_(windowBytes), bundle_(bundle) {}

  void push(int priority, Item&& item, Time now);

  /// What goes now, in flight from here on; nullptr: see hold(). A message larger than the window goes alone.
  Flight* next(Time now);
  Hold hold() const { return hold_; }
  Time due() const { return due_; }

  /// It is out. Its items stay the caller's until recycle().
  void sent(const Flight& flight);
  void recycle(Flight& flight);

  /// To be called at intervals: a window in which nothing moved for some does not count any more. True if the
  /// next one opened now. `*waits`: call again.
  bool look(bool* waits);

 private:
  struct Waiting {
    int priority = 0;
    uint64_t sequence = 0;
    size_t bytes = 0;  // payload and header
    size_t slot = 0;
    bool operator<(const Waiting& other) const {
      return priority != other.priority ? priority < other.priority : sequence > other.sequence;
    }
  };
  using Heap = std::priority_queue<Waiting>;

  static size_t bytesInBundle(const Waiting& waiting);
  bool isSmall(size_t payloadBytes) const;
  bool fits(size_t bytes) const { return inFlight_ == 0 || inFlight_ + bytes <= windowBytes_; }
  Flight* nothing(Hold why);
  Flight& newFlight();
  void board(Flight& flight, Heap& heap);

  const size_t windowBytes_;
  const BundleOptions bundle_;
  Heap small_;
  Heap large_;
  size_t smallBytes_ = 0;  // a bundle of all that is small would have
  Time due_{};             // small ones go, whatever is in flight
  Hold hold_ = Hold::kEmpty;
  uint64_t sequence_ = 0;
  uint64_t window_ = 0;  // number of the window that is open
  size_t inFlight_ = 0;  // bytes of this window
  size_t flying_ = 0;    // flights of this and earlier windows
  int quietLooks_ = 0;   // how often in a row nothing had moved

  // Used again: as many as were ever needed at a time.
  std::vector<Item> slots_;
  std::vector<size_t> freeSlots_;
  std::vector<std::unique_ptr<Flight>> flights_;
  std::vector<Flight*> freeFlights_;
};

}  // namespace hipress
