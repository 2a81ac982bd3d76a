// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for their replies. The owner's lock guards them.
#pragma once

#include <condition_variable>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/control/request.h"

namespace hipress::control {

struct PendingCall {
  std::condition_variable answered;
  std::optional<Reply> reply;
};

/// The waiting calls of one rank, by the number of the reply.
class PendingCalls {
 public:
  uint64_t add(PendingCall& call) {
    calls_.emplace(++last_, &call);
    return last_;
  }
  void remove(uint64_t number) { calls_.erase(number); }

  /// Drops the reply of a call that has stopped waiting.
  void answer(Reply reply) {
    const auto found = calls_.find(reply.call);
    if (found == calls_.end()) return;
    found->second->reply = std::move(reply);
    found->second->answered.notify_all();
  }

  void failAll(const Failure& failure) {
    for (auto& [number, call] : calls_) {
      if (call->reply) continue;
      call->reply = Reply{number, failure, 0, {}};
      call->answered.notify_all();
    }
  }

  bool awaits(uint64_t number) const { return calls_.contains(number); }

 private:
  std::map<uint64_t, PendingCall*> calls_;
  uint64_t last_ = 0;
};

inline const Reply& checked(const Reply& reply) {
  if (reply.failure) throw Error(*reply.failure);
  return reply;
}

inline std::vector<std::string> valuesOf(const Reply& reply) {
  std::vector<std::string> values;
  values.reserve(reply.values.size());
  for (const SharedValue& value : reply.values) values.push_back(value ? *value : std::string());
  return values;
}

/// Throws InvalidArgument on the calling rank for a value that is too large for a frame.
inline void checkSize(const char* what, size_t size, size_t limit) {
  if (size <= limit) return;
  throw invalidArgument(std::string(what) + " has " + std::to_string(size) + " bytes; at most " +
                        std::to_string(limit) + " are allowed");
}

inline Failure closedFailure() {
  return failureOf(ErrorKind::kNotInitialized, "this rank's control plane has been closed");
}

}  // namespace hipress::control
