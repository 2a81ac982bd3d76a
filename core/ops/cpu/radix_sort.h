// SPDX-License-Identifier: Apache-2.0
//
// A stable sort of positions by unsigned keys, from the lowest bits to the highest. It skips bits in which
// all keys are equal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/ops/cpu/scratch.h"

namespace hipress::ops::detail {

inline constexpr unsigned kSortBits = 8;  // as many buckets as a processor can write to at once
inline constexpr size_t kSortBuckets = size_t{1} << kSortBits;

template <typename Key>
struct KeyedPosition {
  Key key;
  uint32_t position;
};

template <typename Key>
void sortPositions(const Key* keys, size_t count, uint32_t* positions, Scratch& scratch) {
  constexpr unsigned passes = 8 * sizeof(Key) / kSortBits;
  constexpr Key mask = kSortBuckets - 1;
  auto* from = scratch.take<KeyedPosition<Key>>(count);
  auto* to = scratch.take<KeyedPosition<Key>>(count);
  auto* counts = scratch.take<uint32_t[kSortBuckets]>(passes);
  std::memset(counts, 0, sizeof(*counts) * passes);
  for (size_t i = 0; i < count; ++i) {
    from[i] = {keys[i], static_cast<uint32_t>(i)};
    for (unsigned pass = 0; pass < passes; ++pass) ++counts[pass][(keys[i] >> (pass * kSortBits)) & mask];
  }
  for (unsigned pass = 0; pass < passes && count != 0; ++pass) {
    uint32_t* next = counts[pass];
    const unsigned shift = pass * kSortBits;
    if (next[(keys[0] >> shift) & mask] == count) continue;
    uint32_t begin = 0;
    for (size_t bucket = 0; bucket < kSortBuckets; ++bucket) begin += std::exchange(next[bucket], begin);
    for (size_t i = 0; i < count; ++i) to[next[(from[i].key >> shift) & mask]++] = from[i];
    std::swap(from, to);
  }
  for (size_t i = 0; i < count; ++i) positions[i] = from[i].position;
}

}  // namespace hipress::ops::detail
