// SPDX-License-Identifier: Apache-2.0
//
// The policy of one link: which of the waiting messages goes next, and which messages go together. The
// runtime and the simulator of core/simulation/ run the same class; it knows neither threads nor a clock nor
// a transport.
//
// Only a window of bytes is with the transport at a time. The other messages wait here, so that a message of
// higher priority that becomes ready later still overtakes them.
//
// A message that travels alone costs about as much as the bytes of a small gradient, so small messages travel
// together in a bundle. They leave at once if the link is idle, because waiting would gain nothing. Otherwise
// they leave when the messages in flight are out, when a bundle is full, or when the first of them has waited
// for BundleOptions::linger.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/priority_heap.h"
#include "core/base/time.h"
#include "core/transport/transport.h"

namespace hipress {

struct BundleOptions {
  size_t bytes = size_t{64} << 10;         ///< The largest bundle; 0: every message travels alone.
  size_t messageBytes = size_t{16} << 10;  ///< The largest payload in a bundle; see bundlesOf().
  /// How long a small message waits for others at most. The messages in flight are mostly out before; a
  /// shorter limit would wake a thread too often.
  std::chrono::microseconds linger{5000};
  bool always = false;  ///< Ranks of one host use the same sizes as ranks of different hosts.
};

/// The sizes for one link. Between ranks of one host a payload of more than 2 KiB travels alone: in shared
/// memory two copies, into the bundle and out of it, take longer than a message.
BundleOptions bundlesOf(const BundleOptions& options, bool throughSockets);

/// Not thread-safe.
class LinkQueue {
 public:
  using Time = std::chrono::time_point<Clock, std::chrono::duration<double>>;

  struct Message {
    uint64_t name = 0;   ///< The owner's name for it.
    double payload = 0;  ///< Bytes, without the header.
    double share = 1;  ///< In a simulation a message may stand for a part of one; see representativeGraph().

    double bytes() const { return share * (payload + static_cast<double>(kMessageHeaderBytes)); }
  };

  /// A message, or a bundle of several.
  struct Flight {
    std::vector<Message> messages;  ///< The highest priority first.
    double bytes = 0;
    double share = 0;     ///< The messages' shares together, 1 at most.
    uint64_t window = 0;  ///< The queue's own.
  };

  /// Why next() gave nothing.
  enum class Hold : uint8_t {
    kEmpty,   ///< Nothing waits.
    kWindow,  ///< The window is full.
    kGather,  ///< Small messages wait for others, until due().
  };

  LinkQueue(size_t windowBytes, const BundleOptions& bundle)
      : windowBytes_(static_cast<double>(windowBytes)), bundle_(bundle), linger_(bundle.linger) {}

  void push(int priority, const Message& message, Time now);

  /// Fills `flight`, which is in flight from here on. False, and `flight` has no messages: see hold(). A
  /// message that is larger than the window goes when nothing else of the window is in flight.
  bool next(Time now, Flight& flight);
  Hold hold() const { return hold_; }
  Time due() const { return due_; }

  /// The flight is out.
  void sent(const Flight& flight);

  /// To be called at intervals. A window in which nothing has moved for some calls does not count any more;
  /// returns whether the next window opened now. `*waits`: messages wait, and the function is to be called
  /// again.
  bool look(bool* waits);

 private:
  using Heap = PriorityHeap<Message>;

  bool isSmall(const Message& message) const;
  bool fits(const Message& message) const;

  const double windowBytes_;
  const BundleOptions bundle_;
  const Time::duration linger_;
  Heap small_;
  Heap large_;
  double smallBytes_ = 0;  // size of a bundle of all small messages
  Time due_{};             // when the small messages go, whatever is in flight
  Hold hold_ = Hold::kEmpty;
  uint64_t pushed_ = 0;
  uint64_t window_ = 0;        // number of the window that is open
  double windowInFlight_ = 0;  // bytes of this window
  size_t windowFlights_ = 0;   // flights of this window
  size_t flights_ = 0;         // flights of this and earlier windows
  double flyingShare_ = 0;     // their shares together
  int quietLooks_ = 0;         // calls of look() in a row in which nothing had moved
};

}  // namespace hipress
