// SPDX-License-Identifier: Apache-2.0
//
// Sorts by keys, in full or in part. Keys first become unsigned integers of the same order. All functions are
// stable: equal keys keep the order of their positions.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/ops/cpu/radix_select.h"
#include "core/ops/cpu/radix_sort.h"
#include "core/ops/cpu/scratch.h"

namespace hipress::ops {

/// Unsigned integers in the order of the keys: −0 equals +0, and every NaN is last.
inline uint32_t orderKey(int32_t key) {
  return static_cast<uint32_t>(key) ^ 0x80000000u;
}
inline uint32_t orderKey(float key) {
  const uint32_t bits = std::bit_cast<uint32_t>(key + 0.0f);  // −0 + 0 is +0
  const uint32_t ordered = bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0xffffffffu : ordered;
}
inline uint64_t orderKey(double key) {
  const uint64_t bits = std::bit_cast<uint64_t>(key + 0.0);
  const uint64_t ordered = bits ^ ((bits >> 63) != 0 ? ~uint64_t{0} : uint64_t{1} << 63);
  return (bits & ~(uint64_t{1} << 63)) > 0x7ff0000000000000u ? ~uint64_t{0} : ordered;
}

/// The positions of all keys in ascending order of the keys.
template <typename Key>
void stableOrder(const Key* keys, size_t count, uint32_t* positions) {
  Scratch scratch;
  detail::sortPositions(keys, count, positions, scratch);
}

/// The position at `rank` in the order of stableOrder(). `rank` must be less than `count`.
template <typename Key>
size_t positionOfRank(const Key* keys, size_t count, size_t rank) {
  Scratch scratch;
  return detail::selectPosition(keys, count, rank, scratch);
}

/// The first k (at most `count`) positions of stableOrder(), but in ascending order of position.
template <typename Key>
void smallestSet(const Key* keys, size_t count, size_t k, uint32_t* positions) {
  if (k == 0) return;
  const size_t last = positionOfRank(keys, count, k - 1);
  const Key limit = keys[last];
  size_t found = 0;
  for (size_t i = 0; found < k; ++i) {
    positions[found] = static_cast<uint32_t>(i);
    found += static_cast<size_t>((keys[i] < limit) | ((keys[i] == limit) & (i <= last)));
  }
}

/// The first k (at most `count`) positions of stableOrder(), in the same order.
template <typename Key>
void smallest(const Key* keys, size_t count, size_t k, uint32_t* positions) {
  if (k == count) return stableOrder(keys, count, positions);
  if (k == 0) return;
  Scratch scratch;
  uint32_t* set = scratch.take<uint32_t>(k);
  Key* chosen = scratch.take<Key>(k);
  smallestSet(keys, count, k, set);
  for (size_t i = 0; i < k; ++i) chosen[i] = keys[set[i]];
  detail::sortPositions(chosen, k, positions, scratch);
  for (size_t i = 0; i < k; ++i) positions[i] = set[positions[i]];
}

}  // namespace hipress::ops
