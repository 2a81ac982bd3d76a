// SPDX-License-Identifier: Apache-2.0
//
// Converts one value of float16 or bfloat16 to float32 and back. The branch-free integer code vectorises
// everywhere and gives the bits of the F16C instructions. It computes half-precision denormals with normal
// numbers only, so a process that flushes denormals to zero sends the same bytes as its peers. The functions
// are constexpr, so GPUs run the same code.
#pragma once

#include <bit>
#include <cstdint>

namespace hipress {

constexpr float halfToFloat(uint16_t half) {
  constexpr uint32_t exponentMask = 0x7c00u << 13;
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t shifted = (half & 0x7fffu) << 13;
  const uint32_t exponent = shifted & exponentMask;
  const uint32_t normal = shifted + ((127u - 15u) << 23);
  // Exponent 0: computed as 2^-14 · (1 + mantissa), minus 2^-14; both are exact.
  const float denormal = std::bit_cast<float>(shifted + (113u << 23)) - std::bit_cast<float>(113u << 23);
  const uint32_t infinityOrNan = shifted + ((255u - 31u) << 23);
  const uint32_t quiet = shifted > exponentMask ? 0x00400000u : 0u;
  uint32_t bits = exponent == 0 ? std::bit_cast<uint32_t>(denormal) : normal;
  bits = exponent == exponentMask ? (infinityOrNan | quiet) : bits;
  return std::bit_cast<float>(bits | sign);
}

constexpr uint16_t floatToHalf(float value) {
  constexpr uint32_t infinity = 255u << 23;
  constexpr uint32_t tooLarge = (127u + 16u) << 23;      // 65536: infinity for any mantissa
  constexpr uint32_t firstNormal = (127u - 14u) << 23;   // 2^-14
  constexpr uint32_t alignDenormal = (127u - 1u) << 23;  // 0.5: its last bit is half's smallest denormal
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (all >> 16) & 0x8000u;
  const uint32_t bits = all & 0x7fffffffu;
  // The addition of 0.5 rounds to half's denormal grid.
  const uint32_t denormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(alignDenormal)) -
      alignDenormal;
  const uint32_t odd = (bits >> 13) & 1u;
  const uint32_t normal = (bits - ((127u - 15u) << 23) + 0xfffu + odd) >> 13;
  const uint32_t nan = 0x7e00u | ((bits >> 13) & 0x3ffu);
  uint32_t half = bits < firstNormal ? denormal : normal;
  half = bits >= tooLarge ? 0x7c00u : half;
  half = bits > infinity ? nan : half;
  return static_cast<uint16_t>(half | sign);
}

constexpr float bfloat16ToFloat(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

constexpr uint16_t floatToBfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

}  // namespace hipress
