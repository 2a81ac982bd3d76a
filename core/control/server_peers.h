// SPDX-License-Identifier: Apache-2.0
//
// The connections of rank 0's server. One that has not said who it is, or was refused, is a stranger:
// strangers are limited in time and number, so that nobody outside the job can use up rank 0's descriptors.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "core/control/framed_stream.h"
#include "core/control/heartbeat.h"
#include "core/control/socket.h"

namespace hipress::control {

struct Peer {
  explicit Peer(int fd) : socket(fd), in(fd, kMaxHandshakeFrame), out(fd) {}

  bool stranger() const { return rank < 0; }

  Socket socket;
  FrameReceiver in;
  FrameSender out;
  int rank = -1;
  bool refused = false;                ///< Stays until it has read why; what it says is not heard.
  bool waitsForSpace = false;          ///< Its socket is full; epoll says when it takes more.
  TimePoint deadline;                  ///< Until then a stranger may stay.
  std::optional<Heartbeat> heartbeat;  ///< Not a stranger's.
};

class ServerPeers {
 public:
  using Map = std::map<int, Peer>;  ///< By descriptor.

  /// Takes in a stranger, at the cost of the oldest one if there are too many.
  void add(int fd, TimePoint deadline);

  Peer* find(int fd);
  Peer* ofRank(int rank);
  void introduce(Peer& peer, int rank, const HeartbeatOptions& heartbeat);
  void erase(Peer& peer);

  void dropStrangers(TimePoint lateBy);
  /// When somebody is to be dropped or to be sent a beat.
  std::optional<TimePoint> nextDeadline() const;

  Map& all() { return peers_; }
  bool empty() const { return peers_.empty(); }

 private:
  Map peers_;
  std::map<int, int> fdOfRank_;
};

}  // namespace hipress::control
