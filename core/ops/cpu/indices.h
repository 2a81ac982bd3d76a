// SPDX-License-Identifier: Apache-2.0
//
// Checks of indices from a message or from a program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"

namespace hipress::ops {

namespace detail {

/// The first i < count for which wrong(i), or count. It tests whole stretches first, so that it vectorises.
template <typename Wrong>
size_t firstWrong(size_t count, Wrong wrong) {
  constexpr size_t stretch = 256;
  for (size_t begin = 0; begin < count; begin += stretch) {
    const size_t end = count - begin < stretch ? count : begin + stretch;
    uint32_t any = 0;
    for (size_t i = begin; i < end; ++i) any |= wrong(i) ? 1u : 0u;
    if (any == 0) continue;
    for (size_t i = begin; i < end; ++i) {
      if (wrong(i)) return i;
    }
  }
  return count;
}

}  // namespace detail

/// Position of the first index that is negative or not below `size`; `count`: there is none.
template <IsaLevel>
size_t firstOutside(const int32_t* indices, size_t count, size_t size) {
  // As unsigned numbers, negative indices are the greatest.
  const uint32_t limit = size < 0x80000000u ? static_cast<uint32_t>(size) : 0x80000000u;
  return detail::firstWrong(count, [=](size_t i) { return static_cast<uint32_t>(indices[i]) >= limit; });
}

/// First position p with indices[p + 1] <= indices[p]; `count`: the indices increase.
template <IsaLevel>
size_t firstFalling(const int32_t* indices, size_t count) {
  const size_t pairs = count == 0 ? 0 : count - 1;
  const size_t found = detail::firstWrong(pairs, [=](size_t i) { return indices[i + 1] <= indices[i]; });
  return found == pairs ? count : found;
}

}  // namespace hipress::ops
