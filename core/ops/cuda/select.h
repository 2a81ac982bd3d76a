// SPDX-License-Identifier: Apache-2.0
//
// Finds the key of a rank by counting: first its upper bits, then, among the keys that share these, the next
// bits. Equal keys are ranked by position. For this the last kernels count the ties of each tile.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/scan.h"

namespace hipress::cuda {

inline constexpr unsigned kSelectBits = 11;
inline constexpr unsigned kSelectBuckets = 1u << kSelectBits;

template <typename Key>
struct Selection {
  Key key;           ///< The known bits of the key of the wanted rank; in the end all bits.
  uint32_t rank;     ///< The rank among keys that share the known bits; in the end among keys equal to `key`.
  uint32_t known;    ///< The number of known bits.
  int32_t position;  ///< The element's position, if it is wanted; −1: there is no such rank.
  size_t less;       ///< The number of elements with smaller keys, after the count.
  size_t equal;      ///< The number of elements with this key.
  uint32_t counts[kSelectBuckets];
};

/// For one block: begins the selection of `rank`.
template <typename Key>
HIPRESS_DEVICE void beginSelection(const Block& block, Selection<Key>* selection, int64_t rank,
                                   size_t count) {
  block.once([&] {
    const bool inside = rank >= 0 && static_cast<size_t>(rank) < count;
    selection->key = 0;
    selection->rank = inside ? static_cast<uint32_t>(rank) : 0;
    selection->known = 0;
    selection->position = -1;
  });
  block.threads([&](unsigned t) {
    for (unsigned bucket = t; bucket < kSelectBuckets; bucket += kThreads) selection->counts[bucket] = 0;
  });
  block.sync();
}

/// For all blocks of a grid: counts the next bits.
template <typename Key>
HIPRESS_DEVICE void countKeys(const Block& block, const Key* keys, size_t count, Selection<Key>* selection) {
  constexpr unsigned kBits = 8 * sizeof(Key);
  HIPRESS_SHARED uint32_t counts[kSelectBuckets];
  if (block.index * kTile >= count) return;
  block.threads([&](unsigned t) {
    for (unsigned bucket = t; bucket < kSelectBuckets; bucket += kThreads) counts[bucket] = 0;
  });
  block.sync();
  const Key wanted = selection->key;
  const unsigned known = selection->known;
  const unsigned width = kBits - known < kSelectBits ? kBits - known : kSelectBits;
  const unsigned shift = kBits - known - width;
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count), [&](unsigned j) {
      const Key key = load(keys + tile + j);
      if (known != 0 && (key >> (kBits - known)) != (wanted >> (kBits - known))) return;
      addTo(&counts[static_cast<uint32_t>(key >> shift) & ((1u << width) - 1u)], 1u);
    });
  }
  block.sync();
  block.threads([&](unsigned t) {
    for (unsigned bucket = t; bucket < kSelectBuckets; bucket += kThreads) {
      if (counts[bucket] != 0) addTo(&selection->counts[bucket], counts[bucket]);
    }
  });
}

/// For one block: takes the bucket of the rank.
template <typename Key>
HIPRESS_DEVICE void pickBucket(const Block& block, Selection<Key>* selection) {
  constexpr unsigned kBits = 8 * sizeof(Key);
  constexpr unsigned kEach = kSelectBuckets / kThreads;
  HIPRESS_SHARED ThreadSums sums;
  block.threads([&](unsigned t) {
    uint32_t sum = 0;
    for (unsigned bucket = kEach * t; bucket < kEach * (t + 1); ++bucket) sum += selection->counts[bucket];
    sums.value[0][t] = sum;
  });
  block.sync();
  sums.run(block);
  const uint32_t rank = selection->rank;
  const unsigned known = selection->known;
  const unsigned width = kBits - known < kSelectBits ? kBits - known : kSelectBits;
  block.sync();
  block.threads([&](unsigned t) {
    uint32_t before = sums.before(t);
    for (unsigned bucket = kEach * t; bucket < kEach * (t + 1); ++bucket) {
      const uint32_t here = selection->counts[bucket];
      selection->counts[bucket] = 0;
      if (rank >= before && rank - before < here) {
        selection->key |= static_cast<Key>(bucket) << (kBits - known - width);
        selection->rank = rank - before;
        selection->known = known + width;
      }
      before += here;
    }
  });
  block.sync();
}

/// For all blocks of a grid: counts each tile's keys that are less than the selected key, or equal to it.
template <typename Key>
HIPRESS_DEVICE void countTies(const Block& block, const Key* keys, size_t count,
                              const Selection<Key>* selection, uint32_t* less, uint32_t* equal) {
  HIPRESS_SHARED ThreadSums sums;
  const Key wanted = selection->key;
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    const unsigned here = tileCount(tile, count);
    block.threads([&](unsigned t) {
      uint32_t both = 0;  // less in the lower half, equal in the upper half
      for (unsigned j = t; j < here; j += kThreads) {
        const Key key = load(keys + tile + j);
        both += (key < wanted ? 1u : 0u) + (key == wanted ? 0x10000u : 0u);
      }
      sums.value[0][t] = both;
    });
    block.sync();
    sums.run(block);
    block.once([&] {
      less[tile / kTile] = sums.total() & 0xffffu;
      equal[tile / kTile] = sums.total() >> 16;
    });
    block.sync();
  }
}

/// For one block: adds up the ties of all tiles.
template <typename Key>
HIPRESS_DEVICE void scanTies(const Block& block, Selection<Key>* selection, uint32_t* less, uint32_t* equal,
                             size_t count) {
  const size_t tiles = (count + kTile - 1) / kTile;
  scanCounts(block, less, tiles, &selection->less);
  scanCounts(block, equal, tiles, &selection->equal);
}

/// For all blocks of a grid: calls visit(place, i, tie) for each element i whose key is not greater than the
/// selected one. `tie` is the number of equal keys before it, or kNoTie for smaller keys. `place` is the
/// number of elements before it that are smaller, or equal and among the first `quota` equal ones.
inline constexpr uint32_t kNoTie = 0xffffffffu;
template <typename Key, typename Visit>
HIPRESS_DEVICE void visitSelected(const Block& block, const Key* keys, size_t count,
                                  const Selection<Key>* selection, const uint32_t* less,
                                  const uint32_t* equal, uint32_t quota, Visit visit) {
  HIPRESS_SHARED ThreadSums sums;
  const Key wanted = selection->key;
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    const unsigned here = tileCount(tile, count);
    block.threads([&](unsigned t) {
      uint32_t both = 0;
      for (unsigned j = 4 * t; j < 4 * t + 4 && j < here; ++j) {
        const Key key = load(keys + tile + j);
        both += (key < wanted ? 1u : 0u) + (key == wanted ? 0x10000u : 0u);
      }
      sums.value[0][t] = both;
    });
    block.sync();
    sums.run(block);
    block.threads([&](unsigned t) {
      uint32_t smaller = less[tile / kTile] + (sums.before(t) & 0xffffu);
      uint32_t ties = equal[tile / kTile] + (sums.before(t) >> 16);
      for (unsigned j = 4 * t; j < 4 * t + 4 && j < here; ++j) {
        const Key key = load(keys + tile + j);
        const size_t place = static_cast<size_t>(smaller) + (ties < quota ? ties : quota);
        if (key < wanted) {
          visit(place, tile + j, kNoTie);
          ++smaller;
        } else if (key == wanted) {
          visit(place, tile + j, ties);
          ++ties;
        }
      }
    });
    block.sync();
  }
}

/// For all blocks of a grid: sets selection->position to the position of the selected element.
template <typename Key>
HIPRESS_DEVICE void findPosition(const Block& block, const Key* keys, size_t count, Selection<Key>* selection,
                                 const uint32_t* less, const uint32_t* equal) {
  const uint32_t rank = selection->rank;
  visitSelected(block, keys, count, selection, less, equal, 0, [&](size_t, size_t i, uint32_t tie) {
    if (tie == rank) selection->position = static_cast<int32_t>(i);
  });
}

/// For all blocks of a grid: calls write(place, i) for the k elements of the lowest ranks; `place` counts
/// them in ascending order of i. The selection must be of rank k − 1. With k = 0 there is no call.
template <typename Key, typename Write>
HIPRESS_DEVICE void smallestSet(const Block& block, const Key* keys, size_t count, size_t k,
                                const Selection<Key>* selection, const uint32_t* less, const uint32_t* equal,
                                Write write) {
  if (k == 0) return;
  const uint32_t quota = selection->rank + 1;
  visitSelected(block, keys, count, selection, less, equal, quota, [&](size_t place, size_t i, uint32_t tie) {
    if (tie == kNoTie || tie < quota) write(place, i);
  });
}

}  // namespace hipress::cuda
