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

/// The first message goes alone, because the link is idle. Messages that come meanwhile go in a bundle, by
/// priority. A message that takes too long does not keep small messages waiting.
void gathersWhileSomethingIsInFlight();

/// A receiver splits or refuses any bytes; a sanitizer reports a read behind them.
void splitsOrRefuses(Random& random);

}  // namespace hipress::stress
