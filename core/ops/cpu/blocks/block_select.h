// SPDX-License-Identifier: Apache-2.0
//
// The smallest keys of a block, while the block is in the first caches: few candidates up to a limit are
// found first, and the smallest of these are selected. The last block gives a limit that often leaves enough
// candidates. Otherwise the least keys of groups give one that always does: k groups have a key up to the
// k-th of these.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"
#include "core/ops/cpu/candidates.h"
#include "core/ops/cpu/scratch.h"

namespace hipress::ops {

namespace detail {

/// The key of rank k, counted from 0. It halves the range of the keys, because a loop that counts has no
/// branches for a processor to mispredict, and is vector code.
template <IsaLevel level>
uint32_t keyOfRank(const uint32_t* keys, size_t count, size_t k) {
  uint32_t low = keys[0], high = keys[0];
  for (size_t i = 1; i < count; ++i) {
    low = std::min(low, keys[i]);
    high = std::max(high, keys[i]);
  }
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    uint32_t below = 0;
    for (size_t i = 0; i < count; ++i) below += keys[i] <= middle ? 1 : 0;
    if (below > k) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Writes first + positions[i] of the k smallest of the keys, in order; of equal keys the first ones. Returns
/// the greatest of them. `out` is written up to its k-th element.
template <IsaLevel level>
uint32_t writeSmallest(const uint32_t* keys, const int32_t* positions, size_t count, size_t k, int32_t first,
                       int32_t* out) {
  const uint32_t last = keyOfRank<level>(keys, count, k - 1);
  uint32_t less = 0;
  for (size_t i = 0; i < count; ++i) less += keys[i] < last ? 1 : 0;
  size_t found = 0, ties = k - less;
  for (size_t i = 0; found < k; ++i) {
    const bool tie = keys[i] == last && ties != 0;
    out[found] = first + positions[i];  // the next element overwrites it if it is not chosen
    found += keys[i] < last || tie ? 1 : 0;
    ties -= tie ? 1 : 0;
  }
  return last;
}

}  // namespace detail

/// Takes the keys of one block after the other.
template <IsaLevel level>
class BlockSelect {
 public:
  /// `most` keys of a block at most; the `each` smallest are selected.
  BlockSelect(size_t most, size_t each)
      : each_(each),
        keys_(scratch_.take<uint32_t>(most)),
        work_(scratch_.take<uint32_t>(most)),
        kept_(scratch_.take<uint32_t>(most + 16)),
        positions_(scratch_.take<int32_t>(most + 16)) {}

  /// How many elements are selected of a whole block.
  size_t each() const { return each_; }

  void add(const uint32_t* keys, size_t count) {
    std::memcpy(keys_ + count_, keys, count * sizeof(*keys));
    count_ += count;
  }

  /// Writes the indices of the selected elements; `first` is the index of the block's first element.
  void finish(size_t first, int32_t* out) {
    const size_t count = count_, k = std::min(each_, count);
    count_ = 0;
    if (k == 0) return;
    size_t found = likely_ == kNoLimit<uint32_t> ? 0 : candidates(count, likely_);
    if (found < k || found > 4 * k + 64) found = candidates(count, limit(count, k));
    const uint32_t last =
        detail::writeSmallest<level>(kept_, positions_, found, k, static_cast<int32_t>(first), out);
    likely_ = last < kNoLimit<uint32_t> - kSlack ? last + kSlack : kNoLimit<uint32_t>;
  }

 private:
  /// Of a float's key, an eighth of a power of two.
  static constexpr uint32_t kSlack = uint32_t{1} << 20;

  size_t candidates(size_t count, uint32_t limit) {
    return detail::compactUpTo<level>(keys_, count, limit, 0, positions_, kept_);
  }

  /// At least k keys are not above it.
  uint32_t limit(size_t count, size_t k) {
    const size_t groups = (2 * k + 15) / 16 * 16;
    if (count < 4 * groups) return kNoLimit<uint32_t>;
    std::memcpy(work_, keys_, groups * sizeof(*keys_));
    for (size_t row = groups; row + groups <= count; row += groups) {
      for (size_t group = 0; group < groups; ++group)
        work_[group] = std::min(work_[group], keys_[row + group]);
    }
    return detail::keyOfRank<level>(work_, groups, k - 1);
  }

  Scratch scratch_;
  size_t each_;
  size_t count_ = 0;
  uint32_t likely_ = kNoLimit<uint32_t>;
  uint32_t* keys_;
  uint32_t* work_;
  uint32_t* kept_;
  int32_t* positions_;
};

}  // namespace hipress::ops
