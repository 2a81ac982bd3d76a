// SPDX-License-Identifier: Apache-2.0
//
// Links of hosts. A connection between two ranks has a socket's memory at the sender; the connections that
// have something in it take turns on their host's link, as the kernel's do, a chunk each. Chunks for a host
// come in through its link one after the other, at the same time as they go out at the sender if no other
// host sends there. Of a connection only a few chunks are under way, so a receiver whose link is full holds
// up only its own senders.
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
  double bytes = 0;     ///< That go out.
  double arriving = 0;  ///< Bytes that come in; a simulated rank may stand for others: representativeGraph().
  bool first = false;   ///< Of its flight.
  bool last = false;
};

class Network {
 public:
  /// `representative`: only rank 0 is seen, and stands for so many ranks of its host.
  Network(const ClusterDescription& cluster, bool representative, size_t ranksPerHost, EventQueue& events);

  /// Number of the connection from a rank that is seen to any rank.
  uint32_t connection(uint32_t rank, int peer) const {
    return rank * static_cast<uint32_t>(world_) + static_cast<uint32_t>(peer);
  }
  size_t connections() const { return connections_.size(); }
  bool crossesNetwork(uint32_t connection) const { return !connections_[connection].shared; }
  const LinkDescription& link(uint32_t connection) const { return *connections_[connection].link; }
  /// Seconds that so many bytes take on both links together, latency included.
  double transfer(uint32_t connection, double bytes) const;
  /// Bytes into which a message on it is cut.
  double chunkBytes(uint32_t connection) const { return connections_[connection].chunkBytes; }

  /// Whether its socket takes more.
  bool hasRoom(uint32_t connection) const;
  void put(const Chunk& chunk, double now);

  /// Handle events of that name. The first returns the connection whose socket has room again.
  uint32_t onUplink(uint32_t host, double now);
  Chunk onArrival(uint32_t number, double now);

  /// Seconds for which a rank's bytes occupied its host's link.
  double sending(uint32_t rank) const { return sending_[rank]; }

 private:
  struct Connection {
    const LinkDescription* link = nullptr;
    uint32_t rank = 0;
    uint32_t sourceHost = 0;
    uint32_t destinationHost = 0;
    bool shared = false;
    bool inTurn = false;  // waits for its host's link
    double chunkBytes = 0;
    double inSocket = 0;
    double slowUntil = 0;  // of a link that is slower than its host's
    double underWay = 0;   // bytes
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
  Slots<Chunk> chunks_;  // under way
};

}  // namespace hipress
