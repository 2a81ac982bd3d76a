// SPDX-License-Identifier: Apache-2.0
//
// Vectors of digits 0, 1 and 2 in a message, five in a byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/ops/packed_element.h"
#include "core/ops/trits.h"

namespace hipress::ops {

namespace detail {

/// The digits of every byte.
inline constexpr auto kDigitsOfByte = [] {
  std::array<std::array<int32_t, kTritsOfByte>, 256> digits{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    for (size_t place = 0; place < kTritsOfByte; ++place) digits[byte][place] = tritOf(byte, place);
  }
  return digits;
}();

}  // namespace detail

/// As packTile() in pack.h.
inline void packTrits(const uint8_t* __restrict codes, size_t count, uint8_t* __restrict field,
                      size_t first) {
  constexpr size_t kEach = kTritsOfByte;
  const size_t head = std::min(count, (kEach - first % kEach) % kEach);
  for (size_t i = 0; i < head; ++i) packElement(codes[i], field, first + i, kTrits);
  const size_t whole = (count - head) / kEach;
  const uint8_t* from = codes + head;
  uint8_t* const to = field + (first + head) / kEach;
  for (size_t byte = 0; byte < whole; ++byte, from += kEach) {
    to[byte] = static_cast<uint8_t>(from[0] + 3 * (from[1] + 3 * (from[2] + 3 * (from[3] + 3 * from[4]))));
  }
  for (size_t i = head + whole * kEach; i < count; ++i) packElement(codes[i], field, first + i, kTrits);
}

/// As unpackTile() in pack.h.
inline void unpackTrits(const uint8_t* __restrict field, size_t first, size_t count,
                        int32_t* __restrict codes) {
  constexpr size_t kEach = kTritsOfByte;
  const size_t head = std::min(count, (kEach - first % kEach) % kEach);
  for (size_t i = 0; i < head; ++i) codes[i] = unpackElement(field, first + i, kTrits);
  const size_t whole = (count - head) / kEach;
  const uint8_t* const from = field + (first + head) / kEach;
  int32_t* to = codes + head;
  for (size_t byte = 0; byte < whole; ++byte, to += kEach) {
    std::memcpy(to, detail::kDigitsOfByte[from[byte]].data(), kEach * sizeof(int32_t));
  }
  for (size_t i = head + whole * kEach; i < count; ++i) codes[i] = unpackElement(field, first + i, kTrits);
}

/// Whether the bytes of `count` digits have only values that packTrits() writes.
inline bool tritsAreWhole(const uint8_t* field, size_t count) {
  const size_t bytes = packedBytes(count, kTrits);
  if (bytes == 0) return true;
  uint8_t most = 0;
  for (size_t byte = 0; byte + 1 < bytes; ++byte) most = std::max(most, field[byte]);
  return most < kTrits && field[bytes - 1] < limitOfTrits(bytes - 1, count);
}

}  // namespace hipress::ops
