// SPDX-License-Identifier: Apache-2.0
//
// Unsigned integers in the order of keys: −0 equals +0, and every NaN is last.
#pragma once

#include <cstring>

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

HIPRESS_DEVICE inline uint32_t orderKey(int32_t key) {
  return static_cast<uint32_t>(key) ^ 0x80000000u;
}
HIPRESS_DEVICE inline uint32_t orderKey(float key) {
  const float positive = key + 0.0f;  // −0 + 0 is +0
  uint32_t bits = 0;
  std::memcpy(&bits, &positive, sizeof(bits));
  const uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu : ordered;
}
HIPRESS_DEVICE inline uint64_t orderKey(double key) {
  const double positive = key + 0.0;
  uint64_t bits = 0;
  std::memcpy(&bits, &positive, sizeof(bits));
  const uint64_t ordered = bits ^ ((bits >> 63) != 0 ? ~uint64_t{0} : uint64_t{1} << 63);
  return (bits & ~(uint64_t{1} << 63)) > 0x7ff0000000000000u ? ~uint64_t{0} : ordered;
}

}  // namespace hipress::cuda
