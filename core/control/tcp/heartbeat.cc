// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/heartbeat.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "core/control/roster.h"
#include "core/control/wire/host_traffic.h"

namespace hipress::control {

std::optional<std::string> Heartbeat::beat(TimePoint now) {
  next_ = now + options_.interval;
  if (!unanswered_ || answered(now)) {
    unanswered_ = now;
    others_.clear();
    transfer_.reset();
    return std::nullopt;
  }
  if (othersTransferred()) transfer_ = now;
  constexpr int kFullLink = 3;
  const bool full = transfer_ && now - *transfer_ < options_.limit / 2;
  if (now - *unanswered_ < (full ? kFullLink : 1) * options_.limit) return std::nullopt;
  return "its host has not answered for " + seconds(options_.limit.count()) +
         ": the network to it is cut, or the host is down or frozen";
}

bool Heartbeat::othersTransferred() {
  // Beats and other control messages of a second are shorter.
  constexpr uint64_t kGradients = 4096;
  std::map<int, uint64_t> before = bytesOfOtherHosts(fd_);
  before.swap(others_);
  return std::any_of(others_.begin(), others_.end(), [&](const auto& connection) {
    const auto known = before.find(connection.first);
    return known != before.end() && connection.second >= known->second + kGradients;
  });
}

bool Heartbeat::answered(TimePoint now) const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  // A connection of another family, from a launcher, does not pass a network.
  if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  // All bytes are acknowledged. If the kernel could not send at all, its probes would add up.
  if (info.tcpi_unacked == 0 && info.tcpi_probes < 2) return true;
  // On a slow link more bytes are to come, but some have come since. The kernel counts in ticks.
  constexpr Milliseconds kTick{50};
  const Milliseconds silence{std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)};
  if (now - silence + kTick >= *unanswered_) return true;
  // Bytes may have come on another connection: gradients fill the queues of a slow link, and beats wait
  // behind them or are dropped.
  const std::optional<Milliseconds> elsewhere = silenceOfHost(fd_);
  return elsewhere && now - *elsewhere + kTick >= *unanswered_;
}

}  // namespace hipress::control
