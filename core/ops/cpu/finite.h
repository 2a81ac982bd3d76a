// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/scalar.h"

namespace hipress::ops {

/// Whether scale·value is finite for all values.
inline bool allFiniteScaled(const float* values, size_t count, float scale) {
  for (size_t i = 0; i < count; ++i) {
    if (!isFinite(values[i] * scale)) return false;
  }
  return true;
}

// A loop finds out whether all of its values are finite from the greatest of their magnitudes. The bits of
// magnitudes, as integers, have the order of the magnitudes, and NaNs are above infinity.

/// The greater one of `magnitude` and the bits of |x|.
inline int32_t greaterMagnitude(int32_t magnitude, float x) {
  const int32_t own = bitsOf(x) & 0x7fffffff;
  return magnitude > own ? magnitude : own;
}
/// Whether these are the bits of a finite value.
inline bool isFiniteMagnitude(int32_t magnitude) {
  return magnitude < 0x7f800000;
}

}  // namespace hipress::ops
