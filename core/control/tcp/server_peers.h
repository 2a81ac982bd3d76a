// SPDX-License-Identifier: Apache-2.0
//
// The connections of rank 0's server. One that has not said who it is, or was refused, is a stranger:
// strangers are limited in time and number, so that no process outside the job can use up rank 0's
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
  /// A stranger's words, once rank 0 has asked it to prove that it knows the token.
  struct Asked {
    Hello hello;
    Greetings greetings;
  };

  int rank = -1;
  std::optional<Asked> asked;
  bool refused = false;                ///< Stays until it has read why; its frames are dropped.
  bool waitsForSpace = false;          ///< Its socket is full; epoll says when it takes more.
  TimePoint deadline;                  ///< Until then a stranger may stay.
  std::optional<Heartbeat> heartbeat;  ///< Not a stranger's.
};

class ServerPeers {
 public:
  using Map = std::map<int, Peer>;  ///< By descriptor.

  /// Takes in a stranger, at the cost of the oldest one if there are too many.
  void add(int fd, TimePoint deadline);

  /// A rank says hello at once: of all strangers, the one that has been silent for longest is the least
  /// likely a rank. False if there is none.
  bool dropOldestStranger();

  Peer* find(int fd);
  Peer* ofRank(int rank);
  void introduce(Peer& peer, int rank, const HeartbeatOptions& heartbeat);
  void erase(Peer& peer);

  void dropStrangers(TimePoint lateBy);
  /// When a stranger is to be dropped, or a rank is to be sent a beat.
  std::optional<TimePoint> nextDeadline() const;

  Map& all() { return peers_; }
  bool empty() const { return peers_.empty(); }

 private:
  Map peers_;
  std::map<int, int> fdOfRank_;
};

}  // namespace hipress::control
