// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/transport/transport.h"
#include "tests/core/stress/world/random.h"

namespace hipress::stress {

using Bytes = std::vector<std::byte>;

inline Bytes randomBytes(Random& random, size_t count) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.below(256));
  return bytes;
}

/// A message for rank 1.
inline SendRequest numbered(uint32_t number, std::span<const std::byte> payload, EndCallback onSent) {
  SendRequest request;
  request.peer = 1;
  request.tag = {number, 1, 2, 3};
  request.payload = payload;
  request.onSent = std::move(onSent);
  return request;
}

/// The first goes alone, for the link is idle; what comes meanwhile goes together, by priority; and what is
/// not out in time does not keep small messages waiting.
void gathersWhileSomethingIsInFlight();

/// Whatever bytes come, they are split or refused; a sanitizer sees who reads behind them.
void splitsOrRefuses(Random& random);

}  // namespace hipress::stress
