// SPDX-License-Identifier: Apache-2.0
#include "core/simulation/network.h"

#include <algorithm>

namespace hipress {
namespace {

/// A chunk has as many bytes as a kernel sends at once, or as a fast link carries in this time.
constexpr double kSmallestChunk = 65536;
constexpr double kChunkSeconds = 250e-6;
/// The transport's setting of its sockets.
constexpr double kSocketBytes = 4194304;
/// Chunks of a connection in flight, in addition to the chunks that its latency needs.
constexpr double kChunksUnderWay = 4;

}  // namespace

const LinkDescription& Network::between(const ClusterDescription& cluster, int source, int destination) {
  const auto found = cluster.unlike.find({source, destination});
  if (found != cluster.unlike.end()) return found->second;
  return source == destination ? cluster.sharedMemory : cluster.network;
}

/// The link of a host is as fast as its fastest link to another host.
Network::Host Network::hostOf(const ClusterDescription& cluster, int number) {
  Host host;
  if (cluster.unlike.empty() || cluster.machines.size() == 1) {
    host.up = host.down = cluster.network.bytesPerSecond;
    return host;
  }
  for (int other = 0; other < static_cast<int>(cluster.machines.size()); ++other) {
    if (other == number) continue;
    host.up = std::max(host.up, between(cluster, number, other).bytesPerSecond);
    host.down = std::max(host.down, between(cluster, other, number).bytesPerSecond);
  }
  return host;
}

Network::Network(const ClusterDescription& cluster, bool representative, size_t ranksPerHost,
                 EventQueue& events)
    : world_(cluster.world()), events_(events) {
  const size_t seen = representative ? 1 : world_;
  for (int host = 0; host < static_cast<int>(representative ? 1 : cluster.machines.size()); ++host) {
    hosts_.push_back(hostOf(cluster, host));
    if (!representative) continue;
    // The neighbours of the rank use the link as much.
    hosts_.back().up /= static_cast<double>(ranksPerHost);
    hosts_.back().down /= static_cast<double>(ranksPerHost);
  }
  sending_.resize(seen);
  connections_.resize(seen * world_);
  for (size_t rank = 0; rank < seen; ++rank) {
    for (size_t peer = 0; peer < world_; ++peer) {
      Connection& made = connections_[rank * world_ + peer];
      const int source = cluster.hosts[rank];
      const int destination = cluster.hosts[peer];
      made.rank = static_cast<uint32_t>(rank);
      made.sourceHost = representative ? 0 : static_cast<uint32_t>(source);
      made.destinationHost = representative ? 0 : static_cast<uint32_t>(destination);
      made.shared = source == destination;
      made.link = &between(cluster, source, destination);
      made.chunkBytes = std::max(kSmallestChunk, made.link->bytesPerSecond * kChunkSeconds);
      made.mostUnderWay =
          kChunksUnderWay * made.chunkBytes + 2 * made.link->latency * made.link->bytesPerSecond;
    }
  }
}

double Network::transfer(uint32_t connection, double bytes) const {
  const Connection& made = connections_[connection];
  return made.link->latency + bytes / made.link->bytesPerSecond;
}

bool Network::hasRoom(uint32_t connection) const {
  return connections_[connection].inSocket < std::max(kSocketBytes, 2 * connections_[connection].chunkBytes);
}

void Network::put(const Chunk& chunk, double now) {
  Connection& made = connections_[chunk.connection];
  if (made.shared) {
    return events_.push(now + made.link->latency, EventKind::kArrival,
                        static_cast<uint32_t>(chunks_.put(Chunk(chunk))));
  }
  made.socket.push_back(chunk);
  made.inSocket += chunk.bytes;
  takeTurn(chunk.connection, now);
}

void Network::takeTurn(uint32_t connection, double now) {
  Connection& made = connections_[connection];
  if (made.inTurn || made.socket.empty() || made.underWay >= made.mostUnderWay) return;
  made.inTurn = true;
  hosts_[made.sourceHost].turns.push_back(connection);
  startUplink(made.sourceHost, now);
}

void Network::startUplink(uint32_t number, double now) {
  Host& host = hosts_[number];
  if (host.sending || host.turns.empty()) return;
  host.current = host.turns.front();
  host.turns.pop_front();
  host.sending = true;
  const double takes = connections_[host.current].socket.front().bytes / host.up;
  sending_[connections_[host.current].rank] += takes;
  events_.push(now + takes, EventKind::kUplink, number);
}

uint32_t Network::onUplink(uint32_t number, double now) {
  Host& host = hosts_[number];
  const uint32_t connection = host.current;
  Connection& made = connections_[connection];
  const Chunk chunk = made.socket.front();
  made.socket.pop_front();
  made.inSocket -= chunk.bytes;
  made.underWay += chunk.bytes;
  Host& destination = hosts_[made.destinationHost];
  double arrives = now + made.link->latency;
  arrives = std::max(arrives, destination.receivesUntil + chunk.arriving / destination.down);
  destination.receivesUntil = arrives;
  if (made.link->bytesPerSecond < host.up) {
    arrives = std::max(arrives, made.slowUntil + chunk.bytes / made.link->bytesPerSecond);
    made.slowUntil = arrives;
  }
  events_.push(arrives, EventKind::kArrival, static_cast<uint32_t>(chunks_.put(Chunk(chunk))));
  host.sending = false;
  made.inTurn = false;
  takeTurn(connection, now);
  startUplink(number, now);
  return connection;
}

Chunk Network::onArrival(uint32_t number, double now) {
  const Chunk chunk = chunks_.take(number);
  Connection& made = connections_[chunk.connection];
  if (!made.shared) made.underWay -= chunk.bytes;
  takeTurn(chunk.connection, now);
  return chunk;
}

}  // namespace hipress
