// SPDX-License-Identifier: Apache-2.0
#include "core/control/heartbeat.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "core/control/roster.h"

namespace hipress {

namespace {

Milliseconds fromEnvironment(const char* name, Milliseconds otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr) return otherwise;
  const std::string_view given(text);
  double value = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), value);
  if (error != std::errc{} || end != given.data() + given.size() || !(value >= 0.01 && value <= 86400)) {
    throw invalidArgument(std::string(name) + "=" + text + " is not a number of seconds from 0.01 to 86400");
  }
  return Milliseconds(static_cast<int64_t>(value * 1000));
}

}  // namespace

HeartbeatOptions HeartbeatOptions::fromEnvironment() {
  HeartbeatOptions options;
  options.limit = hipress::fromEnvironment("HIPRESS_HEARTBEAT_LIMIT", options.limit);
  // Several beats must go unanswered: one may be lost, and TCP sends it again only after a while.
  options.interval =
      hipress::fromEnvironment("HIPRESS_HEARTBEAT", std::min(options.interval, options.limit / 4));
  if (options.interval > options.limit / 2) {
    throw invalidArgument(
        "HIPRESS_HEARTBEAT, the interval, is " + control::seconds(options.interval.count()) +
        "; it must be at most half of HIPRESS_HEARTBEAT_LIMIT, " + control::seconds(options.limit.count()));
  }
  return options;
}

namespace control {

std::optional<std::string> Heartbeat::beat(TimePoint now) {
  next_ = now + options_.interval;
  if (!unanswered_ || answered(now)) {
    unanswered_ = now;
    return std::nullopt;
  }
  if (now - *unanswered_ < options_.limit) return std::nullopt;
  return "its host has not answered for " + seconds(options_.limit.count()) +
         ": the network to it is cut, or the host is down or frozen";
}

bool Heartbeat::answered(TimePoint now) const {
  tcp_info info{};
  socklen_t size = sizeof(info);
  // A connection of another family, from a launcher, does not cross a network.
  if (::getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  // Nothing is under way, and it is not that nothing can be sent: then the kernel's probes add up.
  if (info.tcpi_unacked == 0 && info.tcpi_probes < 2) return true;
  // Something has come since, though there is more to come, as on a slow link. The kernel counts in ticks.
  constexpr Milliseconds kTick{50};
  const Milliseconds heard{std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)};
  return now - heard + kTick >= *unanswered_;
}

}  // namespace control
}  // namespace hipress
