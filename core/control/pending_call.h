// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait for their replies. The owner's lock guards them.
#pragma once

#include <condition_variable>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/control/request.h"
#include "core/control/wire/parts.h"

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
  /// The number of a reply for which no thread waits.
  uint64_t next() { return ++last_; }

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
      call->reply = Reply{number, failure, {}, {}};
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

/// The parts of all ranks in the reply to an all-to-all.
inline std::vector<std::string> partsOf(const Reply& reply, int worldSize) {
  std::optional<std::vector<std::string_view>> parts;
  if (reply.values.size() == 1) parts = splitParts(*reply.values.front(), static_cast<size_t>(worldSize));
  if (!parts) throw transportError("rank 0 has answered an all-to-all with another number of values");
  return {parts->begin(), parts->end()};
}

/// The numbers of `count` declared tensors.
inline std::vector<uint32_t> numbersOf(const Reply& reply, size_t count) {
  if (reply.numbers.size() != count)
    throw transportError("rank 0 has numbered " + std::to_string(reply.numbers.size()) + " of " +
                         std::to_string(count) + " tensors");
  return reply.numbers;
}

/// Calls `onDeclared` with the numbers of `count` tensors, or with the failure.
inline void tell(const Reply& reply, size_t count, const OnDeclared& onDeclared) {
  std::vector<uint32_t> numbers;
  Failure failure = reply.failure;
  try {
    if (!failure) numbers = numbersOf(reply, count);
  } catch (const Error& error) {
    failure = failureOf(error);
  }
  onDeclared(failure, numbers);
}

/// The answer to a question.
inline uint32_t answerOf(const Reply& reply) {
  if (reply.numbers.size() != 1) throw transportError("rank 0 has answered a question with no number");
  return reply.numbers.front();
}

/// The end of a round of join().
inline JoinRound roundOf(const Reply& reply) {
  if (reply.numbers.size() != 2) throw transportError("rank 0 has answered join() with other numbers");
  return {static_cast<int>(reply.numbers[0]), reply.numbers[1]};
}

/// Throws InvalidArgument on the calling rank for a value that is too large for a frame.
inline void checkSize(const char* what, size_t size, size_t limit) {
  if (size <= limit) return;
  throw invalidArgument(std::string(what) + " has " + std::to_string(size) + " bytes; at most " +
                        std::to_string(limit) + " are allowed");
}

/// The request for an all-to-all. Throws InvalidArgument.
inline AllgatherRequest alltoallRequest(const std::string& key, const std::vector<std::string>& values,
                                        Milliseconds timeout, int worldSize) {
  if (values.size() != static_cast<size_t>(worldSize))
    throw invalidArgument("an all-to-all among " + std::to_string(worldSize) + " ranks has " +
                          std::to_string(values.size()) + " values");
  AllgatherRequest request{key, joinParts(values), timeout, true, {}};
  checkSize("the key", key.size(), kMaxText);
  checkSize("all values together", request.value.size(), kMaxValue);
  return request;
}

/// The same for all tensors of a declaration together.
inline void checkSizes(const std::vector<Declaration>& tensors) {
  size_t bytes = 0;
  for (const Declaration& tensor : tensors) {
    checkSize("the tensor's name", tensor.name.size(), kMaxText);
    checkSize("the tensor's specification", tensor.specification.size(), kMaxText);
    bytes += tensor.name.size() + tensor.specification.size() + kDeclarationBytes;
  }
  checkSize("the list of tensors", bytes, kMaxValue);
}

inline Failure closedFailure() {
  return failureOf(ErrorKind::kNotInitialized, "this rank's control plane has been closed");
}

}  // namespace hipress::control
