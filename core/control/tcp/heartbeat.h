// SPDX-License-Identifier: Apache-2.0
//
// Whether the host at the other end of a control connection still answers.
//
// Each end sends a beat every interval. What counts as a sign of life is not the peer's beat but that its
// host acknowledges ours: that is the kernel's to do, so a process that is stopped, swapped out or waits for
// a core is not taken for one that cannot be reached. Deadlines notice such a rank.
//
// A link that is full of gradients is slow, not cut: a beat waits behind queued gradients, or is dropped. So
// a host that sends on another connection of this process (host_traffic.h) counts as answering.
//
// TCP_USER_TIMEOUT would not do: it also ends a connection whose peer is stopped and has a full buffer,
// though its host answers; and the kernel looks at it only when a retransmission is due, seconds apart in the
// end.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/control/request.h"
#include "core/control/tcp/tcp_control.h"

namespace hipress::control {

class Heartbeat {
 public:
  Heartbeat(int fd, const HeartbeatOptions& options) : fd_(fd), options_(options) {}

  /// When to call beat() again.
  TimePoint next() const { return next_; }

  /// To be called before a beat is sent, or instead, where others wait to be sent. If the host has owed an
  /// answer for longer than the limit: what completes "rank 2 was lost: ".
  std::optional<std::string> beat(TimePoint now);

 private:
  bool answered(TimePoint now) const;

  int fd_;
  HeartbeatOptions options_;
  TimePoint next_ = Clock::now();
  std::optional<TimePoint> unanswered_;  ///< When the first beat was sent to which no answer has come.
};

}  // namespace hipress::control
