// SPDX-License-Identifier: Apache-2.0
//
// A stable sort by keys, digit by digit from the lowest one. Only the device knows the number of
// keys, so the sort covers all memory for keys: prepareSort() puts the greatest keys behind the
// others.
#pragma once

#include "core/ops/cuda/arena.h"
#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/scan.h"

namespace hipress::cuda {

/// For all blocks of a grid: writes positions 0, 1, … and the keys behind `count`. Both have room for `most`.
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

inline constexpr unsigned kDigitBits = 4;
inline constexpr unsigned kDigits = 1u << kDigitBits;

template <typename Key>
HIPRESS_DEVICE unsigned digitOf(Key key, unsigned shift) {
  return static_cast<unsigned>(key >> shift) & (kDigits - 1);
}

/// counts[digit · tiles + tile]: the number of the tile's keys with the digit.
template <typename Key>
struct SortCount {
  const Key* keys;
  size_t count;
  unsigned shift;
  uint32_t* counts;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    HIPRESS_SHARED uint32_t here[kDigits];
    const size_t tiles = (count + kTile - 1) / kTile;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.threads([&](unsigned t) {
        if (t < kDigits) here[t] = 0;
      });
      block.sync();
      block.elements(tileCount(tile, count),
                     [&](unsigned j) { addTo(&here[digitOf(keys[tile + j], shift)], uint32_t{1}); });
      block.sync();
      block.threads([&](unsigned t) {
        if (t < kDigits) counts[t * tiles + tile / kTile] = here[t];
      });
      block.sync();
    }
  }
};

/// For one block: turns counts into places.
struct SortScan {
  uint32_t* counts;
  size_t number;
  size_t* total;

  HIPRESS_DEVICE void operator()(const Block& block) const { scanCounts(block, counts, number, total); }
};

/// Keys of a tile with the same digit keep their order: each thread moves four successive keys.
template <typename Key>
struct SortMove {
  const Key* keys;
  const uint32_t* positions;
  size_t count;
  unsigned shift;
  const uint32_t* places;  ///< The place of the first key of each digit and tile.
  Key* sortedKeys;
  uint32_t* sortedPositions;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    static_assert(kTile == 4 * kThreads && kDigits * kThreads % kThreads == 0);
    HIPRESS_SHARED uint32_t ranks[kDigits * kThreads];  // within the tile: digit by digit, thread by thread
    HIPRESS_SHARED uint32_t first[kDigits];
    HIPRESS_SHARED ThreadSums sums;
    const size_t tiles = (count + kTile - 1) / kTile;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      const unsigned here = tileCount(tile, count);
      block.threads([&](unsigned t) {
        for (unsigned digit = 0; digit < kDigits; ++digit) ranks[digit * kThreads + t] = 0;
        for (unsigned j = 4 * t; j < 4 * t + 4 && j < here; ++j) {
          ++ranks[digitOf(keys[tile + j], shift) * kThreads + t];
        }
      });
      block.sync();
      block.threads([&](unsigned t) {
        uint32_t sum = 0;
        for (unsigned i = kDigits * t; i < kDigits * (t + 1); ++i) sum += ranks[i];
        sums.value[0][t] = sum;
      });
      block.sync();
      sums.run(block);
      block.threads([&](unsigned t) {
        uint32_t sum = sums.before(t);
        for (unsigned i = kDigits * t; i < kDigits * (t + 1); ++i) {
          const uint32_t own = ranks[i];
          ranks[i] = sum;
          sum += own;
        }
      });
      block.sync();
      block.threads([&](unsigned t) {
        if (t < kDigits) first[t] = ranks[t * kThreads];
      });
      block.sync();
      block.threads([&](unsigned t) {
        for (unsigned j = 4 * t; j < 4 * t + 4 && j < here; ++j) {
          const Key key = keys[tile + j];
          const unsigned digit = digitOf(key, shift);
          const uint32_t rank = ranks[digit * kThreads + t]++ - first[digit];
          const size_t place = size_t{places[digit * tiles + tile / kTile]} + rank;
          sortedKeys[place] = key;
          sortedPositions[place] = positions[tile + j];
        }
      });
      block.sync();
    }
  }
};

HIPRESS_KERNEL(sort_scan, SortScan)
HIPRESS_KERNEL(sort_count_32, SortCount<uint32_t>)
HIPRESS_KERNEL(sort_count_64, SortCount<uint64_t>)
HIPRESS_KERNEL(sort_move_32, SortMove<uint32_t>)
HIPRESS_KERNEL(sort_move_64, SortMove<uint64_t>)

#if !defined(__CUDACC_RTC__)

/// The memory in which keys are sorted.
template <typename Key>
struct SortScratch {
  SortScratch(void* memory, size_t most)
      : arena(memory),
        keys(arena.template take<Key>(most)),
        positions(arena.template take<uint32_t>(most)),
        number(kDigits * ((most + kTile - 1) / kTile)),
        counts(arena.template take<uint32_t>(number)),
        total(arena.template take<size_t>(1)) {}

  Arena arena;
  Key* keys;
  uint32_t* positions;
  size_t number;
  uint32_t* counts;
  size_t* total;
};

template <typename Key>
size_t sortScratchBytes(size_t most) {
  return SortScratch<Key>(nullptr, most).arena.bytes();
}

/// Sorts `count` keys with their positions into other memory. `scratch` has sortScratchBytes(count) bytes.
template <typename Key>
void sortPositions(Stream stream, void* scratch, const Key* keys, Key* sortedKeys, const uint32_t* positions,
                   uint32_t* sortedPositions, size_t count) {
  constexpr unsigned kBits = 8 * sizeof(Key);
  static_assert(kBits / kDigitBits % 2 == 0, "the last pass writes to the caller's memory");
  const SortScratch<Key> between(scratch, count);
  const unsigned blocks = gridFor(count);
  for (unsigned shift = 0; shift < kBits; shift += kDigitBits) {
    const bool inner = shift / kDigitBits % 2 == 0;
    const Key* const from = shift == 0 ? keys : inner ? sortedKeys : between.keys;
    const uint32_t* const fromPositions = shift == 0 ? positions
                                          : inner    ? sortedPositions
                                                     : between.positions;
    launch(stream, kBits == 32 ? "sort_count_32" : "sort_count_64", blocks,
           SortCount<Key>{from, count, shift, between.counts});
    launch(stream, "sort_scan", 1, SortScan{between.counts, between.number, between.total});
    launch(stream, kBits == 32 ? "sort_move_32" : "sort_move_64", blocks,
           SortMove<Key>{from, fromPositions, count, shift, between.counts, inner ? between.keys : sortedKeys,
                         inner ? between.positions : sortedPositions});
  }
}

#endif

}  // namespace hipress::cuda
