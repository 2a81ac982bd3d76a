// SPDX-License-Identifier: Apache-2.0
//
// Detects whether the host at the other end of a control connection still answers.
//
// Each end sends a beat every interval. The sign of life is the acknowledgement of our beat by the peer's
// host, and not the peer's own beat. The kernel acknowledges, so a process that is stopped, swapped out or
// waiting for a core does not look unreachable. Deadlines detect such a rank.
//
// A link full of gradients is slow, not cut: a beat waits behind queued gradients, or is dropped. So a host
// that sends on another connection of this process (host_traffic.h) counts as answering. Its packets may
// also wait behind those of other hosts, in the queue of this host's link: while gradients come from or go
// to other hosts, the limit is three times as long. Those of a training end soon after a host is lost,
// because all ranks wait for its ranks.
//
// TCP_USER_TIMEOUT would not do. It also ends a connection with a stopped peer and a full buffer, although
// the peer's host answers. And the kernel checks it only when a retransmission is due, after some time
// seconds apart.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/control/request.h"
#include "core/control/tcp/tcp_control.h"

namespace hipress::control {

class Heartbeat {
 public:
  Heartbeat(int fd, const HeartbeatOptions& options) : fd_(fd), options_(options) {}

  /// The time of the next beat().
  TimePoint next() const { return next_; }

  /// The caller calls this before it sends a beat, or instead of a beat if other frames wait. If the host has
  /// owed an answer for longer than the limit, returns the text that completes "rank 2 was lost: ".
  std::optional<std::string> beat(TimePoint now);

 private:
  bool answered(TimePoint now) const;
  /// Whether gradients passed between this host and others since the last call in this silence.
  bool othersTransferred();

  int fd_;
  HeartbeatOptions options_;
  TimePoint next_ = Clock::now();
  std::optional<TimePoint> unanswered_;  ///< The time of the first beat without an answer.
  std::map<int, uint64_t> others_;       ///< What bytesOfOtherHosts() told last in this silence.
  std::optional<TimePoint> transfer_;    ///< The last time in this silence at which gradients had passed.
};

}  // namespace hipress::control
