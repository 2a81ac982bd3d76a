// SPDX-License-Identifier: Apache-2.0
//
// The policy of one link: which waiting message goes next, and which messages travel together. The runtime
// and the simulator of core/simulation/ run the same class, which knows neither threads nor a clock nor a
// transport.
//
// Only the bytes of one window are with the transport at a time. The other messages wait here, so that a
// later message of higher priority still overtakes them.
//
// A message that travels alone costs about as much as the bytes of a small gradient, so small messages travel
// together in a bundle. They leave at once if the link is idle, because a wait would gain nothing. Otherwise
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
  /// The longest wait of a small message for others. The messages in flight are mostly out earlier, and a
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
    uint64_t name = 0;   ///< The caller's name of the message.
    double payload = 0;  ///< Bytes, without the header.
    double share = 1;    ///< In a simulation: part of a message; see representativeGraph().

    double bytes() const { return share * (payload + static_cast<double>(kMessageHeaderBytes)); }
  };

  /// One message, or a bundle.
  struct Flight {
    std::vector<Message> messages;  ///< The highest priority first.
    double bytes = 0;
    double share = 0;     ///< Sum of the messages' shares, 1 at most.
    uint64_t window = 0;  ///< For the queue only.
  };

  /// The reason why next() returned false.
  enum class Hold : uint8_t {
    kEmpty,   ///< No message waits.
    kWindow,  ///< The window is full.
    kGather,  ///< Small messages wait for others, until due().
  };

  LinkQueue(size_t windowBytes, const BundleOptions& bundle)
      : windowBytes_(static_cast<double>(windowBytes)), bundle_(bundle), linger_(bundle.linger) {}

  void push(int priority, const Message& message, Time now);

  /// Fills `flight`, which is in flight from now on. Returns false, and leaves `flight` empty, for the reason
  /// in hold(). A message larger than the window goes when its window has no other flight.
  bool next(Time now, Flight& flight);
  Hold hold() const { return hold_; }
  Time due() const { return due_; }

  /// Reports that the flight is out.
  void sent(const Flight& flight);

  /// The connections of all links of this rank together.
  struct Uplink {
    uint64_t acknowledged = 0;  ///< Transport::acknowledgedBytes().
    double inFlight = 0;        ///< Bytes of all links' flights.
  };

  /// The caller calls this at intervals. A window without progress in several calls stops counting. A flight
  /// that is out is progress, and so are bytes that others acknowledge, but no more than are in flight: then
  /// other links move, and this one does not. Returns whether the next window has opened. `*waits`: messages
  /// wait, so the caller must call again.
  bool look(const Uplink& uplink, bool* waits);

  /// Bytes of this and earlier windows' flights.
  double inFlight() const { return flyingBytes_; }

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
  Time due_{};             // latest time at which the small messages go
  Hold hold_ = Hold::kEmpty;
  uint64_t pushed_ = 0;
  uint64_t window_ = 0;        // number of the open window
  double windowInFlight_ = 0;  // bytes of this window
  size_t windowFlights_ = 0;   // flights of this window
  size_t flights_ = 0;         // flights of this and earlier windows
  double flyingBytes_ = 0;     // sum of their bytes
  double flyingShare_ = 0;     // sum of their shares
  int quietLooks_ = 0;         // calls of look() in a row without progress
  uint64_t firstSeen_ = 0;     // acknowledged bytes at the first look since a flight was out
  uint64_t lastSeen_ = 0;      // and at the last look
};

}  // namespace hipress
