// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/time.h"

namespace hipress::bindings {

/// Converts a timeout of Python in seconds; a negative one is 0. Throws InvalidArgument for NaN.
inline Milliseconds milliseconds(double seconds) {
  if (std::isnan(seconds)) throw invalidArgument("a timeout is not a number");
  constexpr double kYear = 365.0 * 24 * 3600;  // "for ever" must fit into an integer
  return Milliseconds(static_cast<int64_t>(std::clamp(seconds, 0.0, kYear) * 1000.0));
}

}  // namespace hipress::bindings
