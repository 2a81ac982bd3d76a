// SPDX-License-Identifier: Apache-2.0
//
// Stable sorting by keys. How many keys there are is known only on the device, so all of the memory set aside
// for them is sorted: prepareSort() puts the greatest keys behind the others.
#pragma once

#include "core/ops/cuda/execution.h"

#if defined(__CUDACC__)
#include <cub/device/device_radix_sort.cuh>
#else
#include <algorithm>
#include <numeric>
#include <vector>
#endif

namespace hipress::cuda {

/// By all blocks of a grid: positions 0, 1, … and keys behind `count`; there is room for `most` of each.
template <typename Key>
HIPRESS_DEVICE void prepareSort(const Block& block, Key* keys, uint32_t* positions, size_t count,
                                size_t most) {
  for (size_t tile = block.index * kTile; tile < most; tile += block.count * kTile) {
    block.elements(tileCount(tile, most), [&](unsigned j) {
      positions[tile + j] = static_cast<uint32_t>(tile + j);
      if (tile + j >= count) keys[tile + j] = static_cast<Key>(~Key{0});
    });
  }
}

/// Sorts keys with their positions into other memory. With scratch == nullptr, nothing is done but to tell
/// how many bytes of it are needed.
template <typename Key>
size_t sortPositions(Stream stream, void* scratch, size_t scratchBytes, const Key* keys, Key* sortedKeys,
                     const uint32_t* positions, uint32_t* sortedPositions, size_t count) {
#if defined(__CUDACC__)
  cub::DeviceRadixSort::SortPairs(scratch, scratchBytes, keys, sortedKeys, positions, sortedPositions, count,
                                  0, static_cast<int>(8 * sizeof(Key)), stream);
  return scratchBytes;
#else
  static_cast<void>(stream);
  if (scratch == nullptr) return scratchBytes == 0 ? 1 : scratchBytes;
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
  for (size_t i = 0; i < count; ++i) {
    sortedKeys[i] = keys[order[i]];
    sortedPositions[i] = positions[order[i]];
  }
  return scratchBytes;
#endif
}

}  // namespace hipress::cuda
