// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"

namespace hipress::ops {

/// Whether no value is NaN or infinite.
template <IsaLevel>
bool allFinite(const float* values, size_t count) {
  // The greatest magnitude as an integer: one operation less for each value than a comparison.
  int32_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    const int32_t magnitude = std::bit_cast<int32_t>(values[i]) & 0x7fffffff;
    greatest = greatest < magnitude ? magnitude : greatest;
  }
  return greatest < 0x7f800000;
}

}  // namespace hipress::ops
