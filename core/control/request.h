// SPDX-License-Identifier: Apache-2.0
//
// A rank's requests to rank 0 and the replies, in a form without a protocol. The ledger knows only these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/failure.h"
#include "core/control/control_plane.h"

namespace hipress::control {

inline constexpr size_t kMaxValue = size_t{64} << 20;  ///< One rank's value in an allgather.
inline constexpr size_t kMaxText = size_t{1}
                                   << 20;  ///< A key, a tensor's name, its specification, a message.

inline constexpr size_t kDeclarationBytes = 9;  ///< In a frame: of a declaration, beside its texts.

struct AllgatherRequest {
  std::string key;
  std::string value;
  Milliseconds timeout{0};
  bool apart =
      false;  ///< An all-to-all: the value has a part for each rank (wire/parts.h), so has the reply.
  ProcessSet among = {};
};

struct DeclareRequest {
  std::vector<Declaration> tensors;
  ProcessSet among = {};
};

struct AskRequest {
  std::string service;
  std::string question;
};

struct JoinRequest {};

struct DemandRequest {
  int rank = -1;  ///< The joined rank.
  uint32_t tensor = 0;
  uint32_t step = 0;
  std::string text;
  bool excuse = false;  ///< ControlPlane::excuse(): the rank is not told, `text` is the reason.
};

struct AbortRequest {
  ErrorKind error = ErrorKind::kPeerLost;
  std::string message;
};

struct LeaveRequest {
  Milliseconds linger{0};
  std::string reason;  ///< Empty: the rank called shutdown() at its end.
};

using Request = std::variant<AllgatherRequest, DeclareRequest, AskRequest, AbortRequest, LeaveRequest,
                             JoinRequest, DemandRequest>;

/// All ranks get the same values, so values are shared instead of copied.
using SharedValue = std::shared_ptr<const std::string>;

/// The answer to the request with the rank's number `call`.
struct Reply {
  uint64_t call = 0;
  Failure failure;
  std::vector<uint32_t> numbers;  ///< declare: the tensors' numbers; ask: the answer; join: last rank, round
  std::vector<SharedValue> values;  ///< allgather; of an all-to-all one, with a part of each rank
};

struct Outgoing {
  Outgoing(int to, Reply reply) : rank(to), content(std::move(reply)) {}
  Outgoing(int to, ControlNotice notice) : rank(to), content(std::move(notice)) {}

  int rank = -1;
  std::variant<Reply, ControlNotice> content;
};

using Outbox = std::vector<Outgoing>;

inline TimePoint earlier(std::optional<TimePoint> a, TimePoint b) {
  return a ? std::min(*a, b) : b;
}

}  // namespace hipress::control
