// SPDX-License-Identifier: Apache-2.0
//
// Finds the key of a rank: counts the keys by their upper bits, keeps the keys that share these bits with the
// wanted key, and continues with the next bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/ops/cpu/scratch.h"

namespace hipress::ops::detail {

inline constexpr unsigned kSelectBits = 11;
inline constexpr size_t kSelectBuckets = size_t{1} << kSelectBits;

/// The bucket of `rank`. `rank` becomes the rank within the bucket.
inline size_t bucketOfRank(const uint32_t* counts, size_t& rank) {
  size_t bucket = 0;
  for (; rank >= counts[bucket]; ++bucket) rank -= counts[bucket];
  return bucket;
}

/// The position that a stable ascending sort would put at `rank` < count.
template <typename Key>
size_t selectPosition(const Key* keys, size_t count, size_t rank, Scratch& scratch) {
  constexpr unsigned bits = 8 * sizeof(Key);
  uint32_t counts[2][kSelectBuckets];  // two, because successive keys often fall into one bucket
  std::memset(counts, 0, sizeof(counts));
  unsigned shift = bits - kSelectBits;
  size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    ++counts[0][keys[i] >> shift];
    ++counts[1][keys[i + 1] >> shift];
  }
  if (i < count) ++counts[0][keys[i] >> shift];
  for (size_t bucket = 0; bucket < kSelectBuckets; ++bucket) counts[0][bucket] += counts[1][bucket];
  size_t bucket = bucketOfRank(counts[0], rank);

  // The positions of the candidates, in order. The loop writes one more than there are.
  size_t left = counts[0][bucket];
  auto* candidates = scratch.take<uint32_t>(left + 1);
  size_t found = 0;
  for (i = 0; found < left; ++i) {
    candidates[found] = static_cast<uint32_t>(i);
    found += (keys[i] >> shift) == bucket ? 1 : 0;
  }
  while (shift != 0 && left > 1) {
    const unsigned width = shift < kSelectBits ? shift : kSelectBits;
    shift -= width;
    const Key mask = (Key{1} << width) - 1;
    std::memset(counts[0], 0, sizeof(counts[0]));
    for (i = 0; i < left; ++i) ++counts[0][(keys[candidates[i]] >> shift) & mask];
    bucket = bucketOfRank(counts[0], rank);
    found = 0;
    for (i = 0; found < counts[0][bucket]; ++i) {
      const uint32_t position = candidates[i];
      candidates[found] = position;
      found += ((keys[position] >> shift) & mask) == bucket ? 1 : 0;
    }
    left = found;
  }
  return candidates[rank];
}

}  // namespace hipress::ops::detail
