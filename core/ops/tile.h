// SPDX-License-Identifier: Apache-2.0
//
// The sizes that generated loops and their operators share.
#pragma once

#include <cstddef>

namespace hipress::ops {

inline constexpr size_t kTile = 512;        ///< Elements per pass of a fused loop: a few tiles fit into L1.
inline constexpr size_t kBlockTile = 1024;  ///< The same in loops over blocks, which find more in the caches.
inline constexpr size_t kTogether = 512;    ///< Elements of small blocks that a loop takes together.
inline constexpr size_t kMostTogether = 128;  ///< The most of these blocks.
inline constexpr size_t kApart =
    80;  ///< Arrays of a tile lie no multiple of a page apart: stores would seem to collide with loads.
inline constexpr size_t kReduceBlock = 4096;  ///< Elements per block of a reduction: part of the language.
inline constexpr size_t kLanes = 16;          ///< Lanes of a block of a reduction: part of the language.

/// How many blocks of a size are taken together.
constexpr size_t blocksTogether(size_t block) {
  return block > kTogether / 2 ? 1 : (kTogether / block < kMostTogether ? kTogether / block : kMostTogether);
}

static_assert(kReduceBlock % kBlockTile == 0 && kBlockTile % kTile == 0 && kTile % kLanes == 0);

}  // namespace hipress::ops
