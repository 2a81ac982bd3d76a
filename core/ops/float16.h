// SPDX-License-Identifier: Apache-2.0
//
// Elements of type float16. Between messages a program keeps them as floats of the same value. The functions
// give what core/element/half.h gives, in fewer steps, and compute denormals with normal numbers, too.
#pragma once

#include <bit>
#include <cstdint>

#include "core/element/half.h"
#include "core/ops/host_device.h"

namespace hipress::ops {

namespace detail {

inline constexpr uint32_t kInfinity = 255u << 23;
inline constexpr uint32_t kBeyondFloat16 = (127u + 16u) << 23;  ///< 65536.
inline constexpr uint32_t kNormalFloat16 = (127u - 14u) << 23;  ///< 2^-14.
inline constexpr uint32_t kMagnitude = 0x7fffffffu;
inline constexpr uint32_t kFloat16Bits = ~0x1fffu;  ///< The bits of a float that a float16 has, too.

}  // namespace detail

/// The nearest float16, of two the even one; from 65520 on it is infinite.
HIPRESS_HOST_DEVICE constexpr float toFloat16(float x) {
  const auto all = std::bit_cast<uint32_t>(x);
  const uint32_t bits = all & detail::kMagnitude;
  // The last bit of 0.5 is the smallest denormal of float16.
  const auto denormal = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f - 0.5f);
  const uint32_t normal = (bits + 0xfffu + ((bits >> 13) & 1u)) & detail::kFloat16Bits;
  uint32_t rounded = bits < detail::kNormalFloat16 ? denormal : normal;
  rounded = rounded >= detail::kBeyondFloat16 ? detail::kInfinity : rounded;
  rounded = bits > detail::kInfinity ? (bits & detail::kFloat16Bits) | 0x00400000u : rounded;
  return std::bit_cast<float>(rounded | (all & ~detail::kMagnitude));
}

/// The 16 bits of a value that toFloat16() or float16Of() has given.
HIPRESS_HOST_DEVICE constexpr int32_t float16Bits(float x) {
  const auto all = std::bit_cast<uint32_t>(x);
  const uint32_t bits = all & detail::kMagnitude;
  const uint32_t denormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (bits >> 13) - ((127u - 15u) << 10);
  uint32_t half = bits < detail::kNormalFloat16 ? denormal : normal;
  half = bits >= detail::kBeyondFloat16 ? 0x7c00u | ((bits >> 13) & 0x3ffu) : half;
  return static_cast<int32_t>(half | ((all >> 16) & 0x8000u));
}

/// The value of these bits.
HIPRESS_HOST_DEVICE constexpr float float16Of(int32_t bits) {
  return halfToFloat(static_cast<uint16_t>(bits));
}

}  // namespace hipress::ops
