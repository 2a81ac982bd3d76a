// SPDX-License-Identifier: Apache-2.0
//
// Filters: each element has a bit that says whether it is kept, and each tile has the number of its kept
// elements. From the running sums of these (scan.h), each tile knows the place of its elements.
#pragma once

#include <cstring>

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

inline constexpr unsigned kMaskWords = kTile / 32;

/// Room for the mask of a vector of `length`, and for the counts of its tiles.
inline size_t maskWords(size_t length) {
  return (length + kTile - 1) / kTile * kMaskWords;
}
inline size_t tileCounts(size_t length) {
  return length / kTile + 1;
}

/// Makes mask and count of a tile. `keep` has 0 or 1 for each of the tile's elements, in shared memory, at a
/// multiple of four.
HIPRESS_DEVICE inline void maskTile(const Block& block, const uint8_t* keep, unsigned count, size_t tile,
                                    uint32_t* mask, uint32_t* counts) {
  static_assert(kTile == 4 * kThreads);
  HIPRESS_SHARED uint8_t fours[kThreads];
  HIPRESS_SHARED uint32_t kept[kMaskWords];
  uint32_t* const words = mask + tile / 32;
  block.threads([&](unsigned t) {
    uint32_t bytes = 0;
    std::memcpy(&bytes, static_cast<const uint8_t*>(__builtin_assume_aligned(keep, 4)) + 4 * t, 4);
    const unsigned here = 4 * t >= count ? 0 : (count - 4 * t < 4 ? count - 4 * t : 4);
    // The product has the four bytes' lowest bits side by side, from bit 24 on.
    const uint32_t bits = ((bytes & 0x01010101u) * 0x01020408u) >> 24;
    fours[t] = static_cast<uint8_t>(bits & ((1u << here) - 1u));
  });
  block.sync();
  block.threads([&](unsigned t) {
    if (t >= kMaskWords) return;
    uint32_t word = 0;
    for (unsigned each = 0; each < 8; ++each)
      word |= static_cast<uint32_t>(fours[8 * t + each]) << (4 * each);
    words[t] = word;
    kept[t] = bitsSet(word);
  });
  block.sync();
  block.once([&] {
    uint32_t sum = 0;
    for (unsigned t = 0; t < kMaskWords; ++t) sum += kept[t];
    counts[tile / kTile] = sum;
  });
}

/// For all blocks of a grid: calls write(place, i) for each kept element i. `place` counts the kept elements.
template <typename Write>
HIPRESS_DEVICE void compact(const Block& block, const uint32_t* mask, const uint32_t* places, size_t length,
                            Write write) {
  HIPRESS_SHARED uint32_t words[kMaskWords];
  for (size_t tile = block.index * kTile; tile < length; tile += block.count * kTile) {
    block.threads([&](unsigned t) {
      if (t < kMaskWords) words[t] = load(mask + tile / 32 + t);
    });
    block.sync();
    const uint32_t base = load(places + tile / kTile);
    block.threads([&](unsigned t) {
      static_assert(kTile == 4 * kThreads);
      const unsigned word = t / 8;
      const unsigned from = t % 8 * 4;
      unsigned four = (words[word] >> from) & 15u;
      if (four == 0) return;
      size_t place = base + bitsSet(words[word] & ((1u << from) - 1u));
      for (unsigned before = 0; before < word; ++before) place += bitsSet(words[before]);
      for (size_t i = tile + 4 * t; four != 0; ++i, four >>= 1) {
        if ((four & 1u) != 0) write(place++, i);
      }
    });
    block.sync();
  }
}

}  // namespace hipress::cuda
