// SPDX-License-Identifier: Apache-2.0
//
// The connections of rank 0's server. A connection that has not named its rank, or was refused, is a
// stranger. Their time and number are limited, so that no process outside the job can use up rank 0's
// descriptors.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "core/control/message.h"
#include "core/control/tcp/heartbeat.h"
#include "core/control/tcp/proof.h"
#include "core/control/wire/framed_stream.h"
#include "core/control/wire/socket.h"

namespace hipress::control {

struct Peer {
  explicit Peer(int fd) : socket(fd), in(fd, kMaxHandshakeFrame), out(fd) {}

  bool stranger() const { return rank < 0; }

  Socket socket;
  FrameReceiver in;
  FrameSender out;
  /// A stranger's greetings, after rank 0 has asked it for a proof of the token.
  struct Asked {
    Hello hello;
    Greetings greetings;
  };

  int rank = -1;
  std::optional<Asked> asked;
  bool refused = false;                ///< Stays until it has read the reason; its frames are dropped.
  bool waitsForSpace = false;          ///< Its socket is full; epoll reports when it has space.
  TimePoint deadline;                  ///< The time at which a stranger must go.
  std::optional<Heartbeat> heartbeat;  ///< Only a rank has one.
};

class ServerPeers {
 public:
  using Map = std::map<int, Peer>;  ///< Key: the descriptor.

  /// Adds a stranger, and drops the oldest one if there are too many.
  void add(int fd, TimePoint deadline);

  /// Drops the stranger that has been silent for longest. It is the least likely rank, because a rank says
  /// hello at once. Returns false if there is no stranger.
  bool dropOldestStranger();

  Peer* find(int fd);
  Peer* ofRank(int rank);
  void introduce(Peer& peer, int rank, const HeartbeatOptions& heartbeat);
  void erase(Peer& peer);

  void dropStrangers(TimePoint lateBy);
  /// The time at which a stranger must go, or a rank must get a beat.
  std::optional<TimePoint> nextDeadline() const;

  Map& all() { return peers_; }
  bool empty() const { return peers_.empty(); }

 private:
  Map peers_;
  std::map<int, int> fdOfRank_;
};

}  // namespace hipress::control
