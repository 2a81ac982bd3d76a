// SPDX-License-Identifier: Apache-2.0
//
// Vectors of elements that may span two bytes of a message: widths of 3, 5, 6, 7 and 12 bits. Eight elements
// of a byte are packed at once in a register of 64 bits; four at once of two bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/ops/packed_element.h"

namespace hipress::ops {

namespace detail {

/// Elements that gatherCodes() packs at once: as many as a register of 64 bits holds.
template <typename Code>
inline constexpr size_t kAtOnce = 8 / sizeof(Code);

/// The codes side by side, `width` bits each, the first in the lowest bits.
inline uint64_t gatherCodes(const uint8_t* codes, unsigned width) {
  uint64_t bytes = 0;
  std::memcpy(&bytes, codes, sizeof(bytes));
  const uint64_t pairs = (bytes & 0x00ff00ff00ff00ffu) | ((bytes >> 8 & 0x00ff00ff00ff00ffu) << width);
  const uint64_t fours = (pairs & 0x0000ffff0000ffffu) | ((pairs >> 16 & 0x0000ffff0000ffffu) << (2 * width));
  return (fours & 0xffffffffu) | (fours >> 32) << (4 * width);
}
inline uint64_t gatherCodes(const uint16_t* codes, unsigned width) {
  uint64_t halves = 0;
  std::memcpy(&halves, codes, sizeof(halves));
  const uint64_t pairs = (halves & 0x0000ffff0000ffffu) | ((halves >> 16 & 0x0000ffff0000ffffu) << width);
  return (pairs & 0xffffffffu) | (pairs >> 32) << (2 * width);
}

}  // namespace detail

/// As packTile() in pack.h.
template <typename Code>
void packSpanning(const Code* codes, size_t count, unsigned width, uint8_t* field, size_t first) {
  constexpr size_t kGroup = detail::kAtOnce<Code>;
  const size_t bit = first * width;
  if (count != 0 && bit % 8 != 0) field[bit / 8] &= static_cast<uint8_t>((1u << (bit % 8)) - 1u);
  const size_t head = std::min(count, (8 - first % 8) % 8);
  for (size_t i = 0; i < head; ++i) packElement(codes[i], field, first + i, width);
  const size_t groups = (count - head) / kGroup, bytes = kGroup * width / 8;
  uint8_t* const to = field + (first + head) * width / 8;
  for (size_t group = 0; group < groups; ++group) {
    const uint64_t packed = detail::gatherCodes(codes + head + group * kGroup, width);
    for (size_t j = 0; j < bytes; ++j) to[group * bytes + j] = static_cast<uint8_t>(packed >> (8 * j));
  }
  for (size_t i = head + groups * kGroup; i < count; ++i) packElement(codes[i], field, first + i, width);
}

/// As unpackTile() in pack.h.
inline void unpackSpanning(const uint8_t* field, size_t first, size_t count, unsigned width, int32_t* codes) {
  constexpr size_t kGroup = 8;
  const uint32_t mask = (1u << width) - 1u;
  const size_t head = std::min(count, (8 - first % 8) % 8);
  for (size_t i = 0; i < head; ++i) codes[i] = unpackElement(field, first + i, width);
  // Four bytes from an element's first byte on have its bits. The last group may be close to the message's
  // end.
  const size_t groups = (count - head) / kGroup, unpacked = groups == 0 ? 0 : groups - 1;
  const uint8_t* const from = field + (first + head) * width / 8;
  for (size_t group = 0; group < unpacked; ++group) {
    for (size_t j = 0; j < kGroup; ++j) {
      const size_t bit = j * width;
      uint32_t bits = 0;
      std::memcpy(&bits, from + group * width + bit / 8, sizeof(bits));
      codes[head + group * kGroup + j] = static_cast<int32_t>(bits >> (bit % 8) & mask);
    }
  }
  for (size_t i = head + unpacked * kGroup; i < count; ++i) codes[i] = unpackElement(field, first + i, width);
}

}  // namespace hipress::ops
