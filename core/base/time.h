// SPDX-License-Identifier: Apache-2.0
//
// The clock of all deadlines, and the unit of all timeouts. The clock never goes backwards.
#pragma once

#include <algorithm>
#include <chrono>

namespace hipress {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Milliseconds = std::chrono::milliseconds;

/// Callers say "for ever" with a very large number. A year instead can still be added to the current time.
inline Milliseconds clampTimeout(Milliseconds timeout) {
  constexpr Milliseconds kYear = std::chrono::hours{24 * 365};
  return std::clamp(timeout, Milliseconds{0}, kYear);
}

}  // namespace hipress
