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
  // Exponents of all ones, and only they, carry into the sign bit.
  uint32_t any = 0;
  for (size_t i = 0; i < count; ++i) {
    any |= (std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu) + 0x00800000u;
  }
  return any < 0x80000000u;
}

}  // namespace hipress::ops
