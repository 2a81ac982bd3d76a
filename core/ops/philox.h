// SPDX-License-Identifier: Apache-2.0
//
// Philox4x32-7 (Salmon et al., 2011), and the choice of the word that is an element's random number:
//   key     = (low, high half of the seed)
//   counter = (low 32 bits of element / 4, bits 32..47 of element / 4 | site << 16, low half of step, tensor)
//   word    = output[element mod 4]
// If 16 bits are enough, eight elements share an evaluation. Their bits stand for the middle of the interval
// of words that begin with these bits:
//   half    = output[element mod 8 / 2], its lower half if the element is even; element / 8 in the counter
//   word    = half * 2^16 + 2^15
#pragma once

#include <cstdint>

#include "core/ops/host_device.h"

namespace hipress::ops {

/// The inputs of random numbers besides the element and the call; the same on all devices.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t tensor = 0;
  uint64_t firstElement = 0;  ///< Place in the tensor of element 0 of the mapped vector.

  /// For numbers that are the same on all ranks. (The seed's upper half has the rank and the purpose of the
  /// encode.)
  HIPRESS_HOST_DEVICE constexpr RandomKey ofAllRanks() const {
    return {seed & 0xffffffffu, step, tensor, firstElement};
  }
};

/// step() of a program: how often the tensor was synchronised before, modulo 2³¹.
HIPRESS_HOST_DEVICE constexpr int32_t stepNumber(const RandomKey& key) {
  return static_cast<int32_t>(key.step & 0x7fffffffu);
}

namespace philox {

inline constexpr uint32_t kMultiplier0 = 0xD2511F53u;
inline constexpr uint32_t kMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kWeyl1 = 0xBB67AE85u;
inline constexpr int kRounds = 7;

}  // namespace philox

/// Random numbers of four successive elements, or of eight.
struct PhiloxWords {
  uint32_t word[4];
};

/// The words of elements 4·group … 4·group + 3 of the tensor (counted without firstElement), or 8·group …
/// 8·group + 7 if each element takes 16 bits, at call `site`.
HIPRESS_HOST_DEVICE constexpr PhiloxWords philoxGroup(const RandomKey& key, uint32_t site, uint64_t group) {
  uint32_t c0 = static_cast<uint32_t>(group);
  uint32_t c1 = (static_cast<uint32_t>(group >> 32) & 0xffffu) | (site << 16);
  uint32_t c2 = static_cast<uint32_t>(key.step);
  uint32_t c3 = key.tensor;
  uint32_t k0 = static_cast<uint32_t>(key.seed);
  uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
  for (int round = 0; round < philox::kRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(philox::kMultiplier0) * c0;
    const uint64_t p1 = static_cast<uint64_t>(philox::kMultiplier1) * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += philox::kWeyl0;
    k1 += philox::kWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

/// The random number of one element of the mapped vector.
HIPRESS_HOST_DEVICE constexpr uint32_t philoxWord(const RandomKey& key, uint32_t site, uint64_t element) {
  const uint64_t place = key.firstElement + element;
  return philoxGroup(key, site, place / 4).word[place % 4];
}

/// The word for which 16 random bits stand.
struct HalfWord {
  uint16_t half;
  HIPRESS_HOST_DEVICE constexpr operator uint32_t() const {
    return static_cast<uint32_t>(half) << 16 | 0x8000u;
  }
};
HIPRESS_HOST_DEVICE constexpr HalfWord halfWord(uint16_t half) {
  return {half};
}

/// Half number `index` of a group's eight halves.
HIPRESS_HOST_DEVICE constexpr uint16_t philoxHalf(const PhiloxWords& words, unsigned index) {
  return static_cast<uint16_t>(words.word[index / 2] >> (16 * (index % 2)));
}

/// The random number of one element of the mapped vector, from 16 bits.
HIPRESS_HOST_DEVICE constexpr HalfWord philoxHalfWord(const RandomKey& key, uint32_t site, uint64_t element) {
  const uint64_t place = key.firstElement + element;
  return halfWord(philoxHalf(philoxGroup(key, site, place / 8), static_cast<unsigned>(place % 8)));
}

}  // namespace hipress::ops
