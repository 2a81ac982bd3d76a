// SPDX-License-Identifier: Apache-2.0
//
// What a rank asks of rank 0 and what comes back, independent of how it travels. The ledger speaks only
// these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress::control {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

inline constexpr size_t kMaxValue = size_t{64} << 20;  ///< One rank's value in an allgather.
inline constexpr size_t kMaxText = size_t{1}
                                   << 20;  ///< A key, a tensor's name, its specification, a message.

struct AllgatherRequest {
  std::string key;
  std::string value;
  Milliseconds timeout{0};
};

struct DeclareRequest {
  std::string name;
  std::string specification;
  bool transient = false;
};

struct RoundRequest {
  std::vector<WaitingLink> waiting;  ///< At least one.
};

struct AbortRequest {
  ErrorKind error = ErrorKind::kPeerLost;
  std::string message;
};

struct LeaveRequest {
  Milliseconds linger{0};
};

using Request = std::variant<AllgatherRequest, DeclareRequest, RoundRequest, AbortRequest, LeaveRequest>;

/// Values are shared, not copied: every rank is sent the same ones.
using SharedValue = std::shared_ptr<const std::string>;

struct Failure {
  ErrorKind kind = ErrorKind::kPeerLost;
  std::string message;
};

/// The answer to the request that a rank numbered `call`.
struct Reply {
  uint64_t call = 0;
  std::optional<Failure> failure;
  uint32_t number = 0;              ///< declare: the tensor's; round: the peer's
  std::vector<SharedValue> values;  ///< allgather
};

struct Outgoing {
  Outgoing(int to, Reply reply) : rank(to), content(std::move(reply)) {}
  Outgoing(int to, ControlNotice notice) : rank(to), content(std::move(notice)) {}

  int rank = -1;
  std::variant<Reply, ControlNotice> content;
};

using Outbox = std::vector<Outgoing>;

/// Callers say "forever" as Milliseconds::max(), which no clock can be advanced by.
inline Milliseconds clampTimeout(Milliseconds timeout) {
  constexpr Milliseconds kYear = std::chrono::hours{24 * 365};
  return std::clamp(timeout, Milliseconds{0}, kYear);
}

inline TimePoint earlier(std::optional<TimePoint> a, TimePoint b) {
  return a ? std::min(*a, b) : b;
}

}  // namespace hipress::control
