// SPDX-License-Identifier: Apache-2.0
//
// Running sums, which give the place of each thread's or each tile's elements.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Sums over the threads of a block.
struct ThreadSums {
  uint32_t value[2][kThreads];

  /// Before: value[0] has a number for each thread, and all threads have passed a sync. Afterwards before(t)
  /// is the sum of the threads below t, and total() is the sum of all threads.
  HIPRESS_DEVICE void run(const Block& block) {
    unsigned from = 0;
    for (unsigned step = 1; step < kThreads; step *= 2, from ^= 1) {
      block.threads([&](unsigned t) {
        const uint32_t below = t >= step ? value[from][t - step] : 0;
        value[from ^ 1][t] = value[from][t] + below;
      });
      block.sync();
    }
  }

  HIPRESS_DEVICE uint32_t before(unsigned t) const { return t == 0 ? 0 : value[kLast][t - 1]; }
  HIPRESS_DEVICE uint32_t total() const { return value[kLast][kThreads - 1]; }

 private:
  static_assert(kThreads == 256);
  static constexpr unsigned kLast = 0;  ///< The half that has the result after eight steps.
};

/// For one block: replaces each of `counts` by the sum of the ones before it; *total becomes the sum of all.
HIPRESS_DEVICE inline void scanCounts(const Block& block, uint32_t* counts, size_t count, size_t* total) {
  constexpr unsigned kEach = 16;
  HIPRESS_SHARED ThreadSums sums;
  uint32_t base = 0;
  for (size_t begin = 0; begin < count; begin += kThreads * kEach) {
    block.threads([&](unsigned t) {
      const size_t first = begin + t * kEach;
      uint32_t sum = 0;
      for (size_t i = first; i < first + kEach && i < count; ++i) sum += counts[i];
      sums.value[0][t] = sum;
    });
    block.sync();
    sums.run(block);
    block.threads([&](unsigned t) {
      const size_t first = begin + t * kEach;
      uint32_t sum = base + sums.before(t);
      for (size_t i = first; i < first + kEach && i < count; ++i) {
        const uint32_t own = counts[i];
        counts[i] = sum;
        sum += own;
      }
    });
    base += sums.total();
    block.sync();
  }
  block.once([&] { *total = base; });
  block.sync();
}

}  // namespace hipress::cuda
