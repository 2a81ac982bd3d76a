// SPDX-License-Identifier: Apache-2.0
//
// Prefix sums and maxima. Thread blocks combine the elements of their tiles, each tile for itself. From the
// running results of the tiles (scan.h), each tile then gets the combination of all elements before it.
#pragma once

#include "core/ops/cuda/scan.h"
#include "core/ops/prefix.h"

namespace hipress::cuda {

/// Combines the elements of a tile, which are in shared memory; totals[tile / kTile] combines all of them.
template <typename Combine, typename Element>
HIPRESS_DEVICE void prefixTile(const Block& block, const Element* staged, unsigned count, size_t tile,
                               int32_t* values, int32_t* totals) {
  constexpr unsigned kEach = kTile / kThreads;
  HIPRESS_SHARED ThreadScan<Combine> scan;
  HIPRESS_SHARED int32_t combined[kTile];
  block.threads([&](unsigned t) {
    int32_t own = Combine::kFirst;
    for (unsigned j = t * kEach; j < (t + 1) * kEach && j < count; ++j) {
      own = Combine{}(own, static_cast<int32_t>(staged[j]));
      combined[j] = own;
    }
    scan.value[0][t] = own;
  });
  block.sync();
  scan.run(block);
  block.elements(count,
                 [&](unsigned j) { values[tile + j] = Combine{}(scan.before(j / kEach), combined[j]); });
  block.once([&] { totals[tile / kTile] = scan.total(); });
  block.sync();
}

/// For all blocks of a grid: completes `values`, in which each tile has combined its own elements only.
/// before[i] combines the elements of all tiles before tile i.
template <typename Combine>
HIPRESS_DEVICE void joinTiles(const Block& block, int32_t* values, size_t length, const int32_t* before) {
  for (size_t tile = block.index * kTile; tile < length; tile += block.count * kTile) {
    const int32_t base = load(before + tile / kTile);
    block.elements(tileCount(tile, length),
                   [&](unsigned j) { values[tile + j] = Combine{}(base, values[tile + j]); });
  }
}

}  // namespace hipress::cuda
