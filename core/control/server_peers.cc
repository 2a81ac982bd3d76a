// SPDX-License-Identifier: Apache-2.0
#include "core/control/server_peers.h"

namespace hipress::control {

namespace {

constexpr size_t kMaxStrangers = 256;

}  // namespace

void ServerPeers::add(int fd, TimePoint deadline) {
  peers_.try_emplace(fd, fd).first->second.deadline = deadline;
  // A rank says hello at once: of all strangers, the one that has been silent for longest is the least likely
  // a rank.
  size_t strangers = 0;
  auto oldest = peers_.end();
  for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
    if (!entry->second.stranger()) continue;
    ++strangers;
    if (oldest == peers_.end() || entry->second.deadline < oldest->second.deadline) oldest = entry;
  }
  if (strangers > kMaxStrangers) peers_.erase(oldest);
}

Peer* ServerPeers::find(int fd) {
  const auto found = peers_.find(fd);
  return found == peers_.end() ? nullptr : &found->second;
}

Peer* ServerPeers::ofRank(int rank) {
  const auto found = fdOfRank_.find(rank);
  return found == fdOfRank_.end() ? nullptr : find(found->second);
}

void ServerPeers::introduce(Peer& peer, int rank, const HeartbeatOptions& heartbeat) {
  peer.rank = rank;
  peer.heartbeat.emplace(peer.socket.get(), heartbeat);
  peer.in.setLimit(kMaxFrame);
  fdOfRank_[rank] = peer.socket.get();
}

void ServerPeers::erase(Peer& peer) {
  if (!peer.stranger()) fdOfRank_.erase(peer.rank);
  peers_.erase(peer.socket.get());
}

void ServerPeers::dropStrangers(TimePoint lateBy) {
  std::erase_if(peers_, [lateBy](const auto& entry) {
    return entry.second.stranger() && entry.second.deadline <= lateBy;
  });
}

std::optional<TimePoint> ServerPeers::nextDeadline() const {
  std::optional<TimePoint> next;
  for (const auto& [fd, peer] : peers_) {
    next = earlier(next, peer.heartbeat ? peer.heartbeat->next() : peer.deadline);
  }
  return next;
}

}  // namespace hipress::control
