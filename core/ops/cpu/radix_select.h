// SPDX-License-Identifier: Apache-2.0
//
// Finds the key of a rank: counts the keys by their upper bits, keeps the keys that share these bits with the
// wanted key, and continues with the next bits. It skips upper bits in which all keys are equal: keys of
// small integers would all share their upper bits.
#pragma once

#include <algorithm>
#include <bit>
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

/// The number of lower bits without which all keys are equal, or a few more.
template <typename Key>
unsigned differingBits(const Key* keys, size_t count) {
  constexpr size_t kPart = 512;  // keys of many values differ early in their upper bits
  constexpr unsigned most = 8 * sizeof(Key);
  Key differences = 0;
  for (size_t begin = 0; begin < count; begin += kPart) {
    const size_t end = std::min(count, begin + kPart);
    for (size_t i = begin; i < end; ++i) differences |= keys[i] ^ keys[0];
    if ((differences >> (most - 2)) != 0) return most;
  }
  return static_cast<unsigned>(std::bit_width(differences));
}

/// selectPosition() with `upper`, which gives the first bucket of a key: its bits from `shift` on.
template <typename Key, typename Upper>
size_t selectPositionBy(const Key* keys, size_t count, size_t rank, Scratch& scratch, unsigned shift,
                        const Upper& upper) {
  uint32_t counts[2][kSelectBuckets];  // two, because successive keys often fall into one bucket
  std::memset(counts, 0, sizeof(counts));
  size_t i = 0;
  for (; i + 2 <= count; i += 2) {
    ++counts[0][upper(keys[i])];
    ++counts[1][upper(keys[i + 1])];
  }
  if (i < count) ++counts[0][upper(keys[i])];
  for (size_t bucket = 0; bucket < kSelectBuckets; ++bucket) counts[0][bucket] += counts[1][bucket];
  size_t bucket = bucketOfRank(counts[0], rank);

  // The positions of the candidates, in order. The loop writes one more than there are.
  size_t left = counts[0][bucket];
  auto* candidates = scratch.take<uint32_t>(left + 1);
  size_t found = 0;
  for (i = 0; found < left; ++i) {
    candidates[found] = static_cast<uint32_t>(i);
    found += upper(keys[i]) == bucket ? 1 : 0;
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

/// The position that a stable ascending sort would put at `rank` < count.
template <typename Key>
size_t selectPosition(const Key* keys, size_t count, size_t rank, Scratch& scratch) {
  constexpr unsigned all = 8 * sizeof(Key);
  const unsigned bits = differingBits(keys, count);
  if (bits == all) {
    constexpr unsigned last = all - kSelectBits;
    return selectPositionBy(keys, count, rank, scratch, last, [](Key key) { return key >> last; });
  }
  const unsigned shift = bits > kSelectBits ? bits - kSelectBits : 0;
  return selectPositionBy(keys, count, rank, scratch, shift,
                          [shift](Key key) { return (key >> shift) & (kSelectBuckets - 1); });
}

}  // namespace hipress::ops::detail
