// SPDX-License-Identifier: Apache-2.0
//
// The smallest keys of each block of a vector; a block of threads selects from one block after the other.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/scan.h"

namespace hipress::cuda {

/// Blocks up to this size are selected by one thread each.
inline constexpr size_t kShortSelect = 64;

/// selectOfBlocks() for short blocks. A key's rank in its block is the number of keys that come before it.
HIPRESS_DEVICE inline void selectOfShortBlocks(const Block& block, const uint32_t* keys, size_t count,
                                               size_t size, size_t each, int32_t* out) {
  const size_t blocks = (count + size - 1) / size;
  for (size_t base = block.index * kThreads; base < blocks; base += block.count * kThreads) {
    block.threads([&](unsigned t) {
      const size_t number = base + t, first = number * size;
      if (number >= blocks) return;
      const size_t here = atMost(size, count - first);
      size_t place = number * each;
      for (size_t i = 0; i < here; ++i) {
        const uint32_t key = load(keys + first + i);
        size_t rank = 0;
        for (size_t j = 0; j < here; ++j) {
          const uint32_t other = load(keys + first + j);
          rank += other < key || (other == key && j < i) ? 1 : 0;
        }
        if (rank < each) out[place++] = static_cast<int32_t>(first + i);
      }
    });
  }
}

/// By all blocks of a grid: writes the indices of the `each` smallest of every `size` successive keys, in
/// ascending order; of equal keys the first ones.
HIPRESS_DEVICE inline void selectOfBlocks(const Block& block, const uint32_t* keys, size_t count, size_t size,
                                          size_t each, int32_t* out) {
  HIPRESS_SHARED ThreadSums less;
  HIPRESS_SHARED ThreadSums equal;
  if (each == 0) return;
  if (size <= kShortSelect) return selectOfShortBlocks(block, keys, count, size, each, out);
  for (size_t number = block.index; number * size < count; number += block.count) {
    const size_t first = number * size, here = atMost(size, count - first);
    const uint32_t* const own = keys + first;
    // The last selected key, bit by bit: `rank` counts the keys that share the known bits.
    uint32_t last = 0;
    auto rank = static_cast<uint32_t>(atMost(each, here) - 1);
    for (unsigned bit = 32; bit-- > 0;) {
      block.threads([&](unsigned t) {
        uint32_t zeros = 0;
        for (size_t i = t; i < here; i += kThreads) zeros += load(own + i) >> bit == last >> bit ? 1u : 0u;
        less.value[0][t] = zeros;
      });
      block.sync();
      less.run(block);
      const uint32_t zeros = less.total();
      block.sync();
      if (rank >= zeros) {
        rank -= zeros;
        last |= 1u << bit;
      }
    }
    const uint32_t quota = rank + 1;  // of the keys that equal the last one
    const size_t part = (here + kThreads - 1) / kThreads;
    block.threads([&](unsigned t) {
      uint32_t below = 0, ties = 0;
      for (size_t i = t * part; i < (t + 1) * part && i < here; ++i) {
        below += load(own + i) < last ? 1u : 0u;
        ties += load(own + i) == last ? 1u : 0u;
      }
      less.value[0][t] = below;
      equal.value[0][t] = ties;
    });
    block.sync();
    less.run(block);
    equal.run(block);
    block.threads([&](unsigned t) {
      size_t below = less.before(t);
      uint32_t ties = equal.before(t);
      for (size_t i = t * part; i < (t + 1) * part && i < here; ++i) {
        const uint32_t key = load(own + i);
        const size_t place = number * each + below + (ties < quota ? ties : quota);
        if (key < last || (key == last && ties < quota)) out[place] = static_cast<int32_t>(first + i);
        below += key < last ? 1u : 0u;
        ties += key == last ? 1u : 0u;
      }
    });
    block.sync();
  }
}

}  // namespace hipress::cuda
