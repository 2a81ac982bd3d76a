// SPDX-License-Identifier: Apache-2.0
//
// Running sums, which give the place of each thread's or each tile's elements, and other running results.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// A sum of counts, for the scans below: combining with kFirst changes nothing.
struct AddCounts {
  using Value = uint32_t;
  static constexpr uint32_t kFirst = 0;
  HIPRESS_DEVICE uint32_t operator()(uint32_t a, uint32_t b) const { return a + b; }
};

/// Combinations of numbers of the threads of a block.
template <typename Combine>
struct ThreadScan {
  using Value = typename Combine::Value;

  Value value[2][kThreads];

  /// Before: value[0] has a number for each thread, and all threads have passed a sync. Afterwards before(t)
  /// is the combination of the threads below t, and total() is the combination of all threads.
  HIPRESS_DEVICE void run(const Block& block) {
    unsigned from = 0;
    for (unsigned step = 1; step < kThreads; step *= 2, from ^= 1) {
      block.threads([&](unsigned t) {
        const Value own = value[from][t];
        value[from ^ 1][t] = t >= step ? Combine{}(value[from][t - step], own) : own;
      });
      block.sync();
    }
  }

  HIPRESS_DEVICE Value before(unsigned t) const { return t == 0 ? Combine::kFirst : value[kLast][t - 1]; }
  HIPRESS_DEVICE Value total() const { return value[kLast][kThreads - 1]; }

 private:
  static_assert(kThreads == 256);
  static constexpr unsigned kLast = 0;  ///< The half that has the result after eight steps.
};

using ThreadSums = ThreadScan<AddCounts>;

/// For one block: replaces each of `values` by the combination of the ones before it; returns that of all.
template <typename Combine>
HIPRESS_DEVICE typename Combine::Value scanBefore(const Block& block, typename Combine::Value* values,
                                                  size_t count) {
  using Value = typename Combine::Value;
  constexpr unsigned kEach = 16;
  HIPRESS_SHARED ThreadScan<Combine> scan;
  Value base = Combine::kFirst;
  for (size_t begin = 0; begin < count; begin += kThreads * kEach) {
    block.threads([&](unsigned t) {
      const size_t first = begin + t * kEach;
      Value own = Combine::kFirst;
      for (size_t i = first; i < first + kEach && i < count; ++i) own = Combine{}(own, values[i]);
      scan.value[0][t] = own;
    });
    block.sync();
    scan.run(block);
    block.threads([&](unsigned t) {
      const size_t first = begin + t * kEach;
      Value before = Combine{}(base, scan.before(t));
      for (size_t i = first; i < first + kEach && i < count; ++i) {
        const Value own = values[i];
        values[i] = before;
        before = Combine{}(before, own);
      }
    });
    base = Combine{}(base, scan.total());
    block.sync();
  }
  return base;
}

/// For one block: replaces each of `counts` by the sum of the ones before it; *total becomes the sum of all.
HIPRESS_DEVICE inline void scanCounts(const Block& block, uint32_t* counts, size_t count, size_t* total) {
  const uint32_t all = scanBefore<AddCounts>(block, counts, count);
  block.once([&] { *total = all; });
  block.sync();
}

}  // namespace hipress::cuda
