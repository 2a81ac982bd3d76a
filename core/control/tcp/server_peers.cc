// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/server_peers.h"

#include <sys/resource.h>

#include <algorithm>

namespace hipress::control {

namespace {

/// An eighth of this process' limit of descriptors. The ranks' connections, UCX and the program need the
/// others.
size_t mostStrangers() {
  constexpr size_t kMost = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kMost;
  return std::clamp<size_t>(static_cast<size_t>(limit.rlim_cur) / 8, 1, kMost);
}

}  // namespace

void ServerPeers::add(int fd, TimePoint deadline) {
  peers_.try_emplace(fd, fd).first->second.deadline = deadline;
  const auto isStranger = [](const auto& entry) { return entry.second.stranger(); };
  const auto strangers = std::count_if(peers_.begin(), peers_.end(), isStranger);
  if (static_cast<size_t>(strangers) > mostStrangers()) dropOldestStranger();
}

bool ServerPeers::dropOldestStranger() {
  auto oldest = peers_.end();
  for (auto entry = peers_.begin(); entry != peers_.end(); ++entry) {
    if (!entry->second.stranger()) continue;
    if (oldest == peers_.end() || entry->second.deadline < oldest->second.deadline) oldest = entry;
  }
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  return true;
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
