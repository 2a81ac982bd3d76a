// SPDX-License-Identifier: Apache-2.0
//
// Links of hosts. A connection between two ranks has the memory of a socket at the sender. Connections with
// bytes in their socket take turns on their host's link, one chunk each, as in the kernel. Chunks for a host
// come in through its link one after the other, at the same time as they go out at the sender if no other
// host sends there. Each connection has only a few chunks in flight, so a receiver with a full link delays
// its own senders only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/base/slots.h"
#include "core/simulation/event_queue.h"
#include "core/simulation/step_description.h"

namespace hipress {

struct Chunk {
  uint32_t connection = 0;
  uint32_t flight = 0;
  double bytes = 0;     ///< bytes that go out
  double arriving = 0;  ///< bytes that come in; may differ, see representativeGraph()
  bool first = false;   ///< the first of its flight
  bool last = false;
};

class Network {
 public:
  /// `representative`: the simulation has rank 0 only, which stands for `ranksPerHost` ranks of its host.
  Network(const ClusterDescription& cluster, bool representative, size_t ranksPerHost, EventQueue& events);

  /// The number of the connection from a simulated rank to any rank.
  uint32_t connection(uint32_t rank, int peer) const {
    return rank * static_cast<uint32_t>(world_) + static_cast<uint32_t>(peer);
  }
  size_t connections() const { return connections_.size(); }
  bool crossesNetwork(uint32_t connection) const { return !connections_[connection].shared; }
  const LinkDescription& link(uint32_t connection) const { return *connections_[connection].link; }
  /// Seconds for `bytes` on both links together, with latency.
  double transfer(uint32_t connection, double bytes) const;
  /// Size of the pieces into which a message on this connection is cut.
  double chunkBytes(uint32_t connection) const { return connections_[connection].chunkBytes; }

  /// Whether the connection's socket takes more bytes.
  bool hasRoom(uint32_t connection) const;
  void put(const Chunk& chunk, double now);

  /// These two handle the events of that name. The first returns the connection whose socket has room again.
  uint32_t onUplink(uint32_t host, double now);
  Chunk onArrival(uint32_t number, double now);

  /// Seconds for which a rank's bytes occupied the link of its host.
  double sending(uint32_t rank) const { return sending_[rank]; }

 private:
  struct Connection {
    const LinkDescription* link = nullptr;
    uint32_t rank = 0;
    uint32_t sourceHost = 0;
    uint32_t destinationHost = 0;
    bool shared = false;
    bool inTurn = false;  // waits for the link of its host
    double chunkBytes = 0;
    double inSocket = 0;
    double slowUntil = 0;  // for a link that is slower than its host's
    double underWay = 0;   // bytes in flight
    double mostUnderWay = 0;
    std::deque<Chunk> socket;
  };
  struct Host {
    double up = 0;  // bytes per second
    double down = 0;
    bool sending = false;
    double receivesUntil = 0;
    std::deque<uint32_t> turns;
    uint32_t current = 0;
  };

  static const LinkDescription& between(const ClusterDescription& cluster, int source, int destination);
  static Host hostOf(const ClusterDescription& cluster, int number);
  void takeTurn(uint32_t connection, double now);
  void startUplink(uint32_t host, double now);

  const size_t world_;
  EventQueue& events_;
  std::vector<Connection> connections_;
  std::vector<Host> hosts_;
  std::vector<double> sending_;
  Slots<Chunk> chunks_;  // in flight
};

}  // namespace hipress
