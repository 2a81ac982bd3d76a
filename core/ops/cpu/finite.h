// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/ops/scalar.h"

namespace hipress::ops {

/// Whether scale·value is finite for all values.
inline bool allFiniteScaled(const float* values, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) {
    if (!isFinite(values[i] * scale)) return false;
  }
  return true;
}

}  // namespace hipress::ops
