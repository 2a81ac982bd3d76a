// SPDX-License-Identifier: Apache-2.0
//
// The smallest keys of a block, while the block is in the first caches: few candidates up to a limit are
// found first, and the smallest of these are selected. The last block gives a limit that often leaves enough
// candidates. Otherwise the least keys of groups give one that always does: k groups have a key up to the
// k-th of these.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"
#include "core/ops/cpu/candidates.h"
#include "core/ops/cpu/compact.h"
#include "core/ops/cpu/prefetch.h"
#include "core/ops/cpu/scratch.h"

namespace hipress::ops {

namespace detail {

/// A limit that exactly k keys do not exceed; if equal keys leave none, the key of rank k, counted from 1. It
/// halves the range of the keys, because a loop that counts has no branches for a processor to mispredict,
/// and is vector code. Most limits between two keys are found in a few rounds.
template <IsaLevel level>
uint32_t limitOf(const uint32_t* keys, size_t count, size_t k) {
  uint32_t low = keys[0], high = keys[0];
  for (size_t i = 1; i < count; ++i) {
    low = std::min(low, keys[i]);
    high = std::max(high, keys[i]);
  }
  if (count == k) return high;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    uint32_t below = 0;
    for (size_t i = 0; i < count; ++i) below += keys[i] <= middle ? 1 : 0;
    if (below == k) return middle;
    if (below > k) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Writes the positions of the k smallest of the keys, in order; of equal keys the first ones. Returns a
/// limit as limitOf() does. `keep` and `chosen` are memory for count + 16 elements.
template <IsaLevel level>
uint32_t writeSmallest(const uint32_t* keys, const int32_t* positions, size_t count, size_t k, int32_t* keep,
                       int32_t* chosen, int32_t* out) {
  const uint32_t last = limitOf<level>(keys, count, k);
  for (size_t i = 0; i < count; ++i) keep[i] = keys[i] <= last ? 1 : 0;
  size_t found = compactValues<level>(keep, positions, count, chosen);
  if (found != k) {
    size_t ties = k;
    for (size_t i = 0; i < count; ++i) ties -= keys[i] < last ? 1 : 0;
    found = 0;
    for (size_t i = 0; found < k; ++i) {
      const bool tie = keys[i] == last && ties != 0;
      chosen[found] = positions[i];  // the next element overwrites it if it is not chosen
      found += keys[i] < last || tie ? 1 : 0;
      ties -= tie ? 1 : 0;
    }
  }
  std::memcpy(out, chosen, k * sizeof(*out));
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
        positions_(scratch_.take<int32_t>(most + 16)),
        keep_(scratch_.take<int32_t>(most + 16)),
        chosen_(scratch_.take<int32_t>(most + 16)) {}

  /// How many elements are selected of a whole block.
  size_t each() const { return each_; }

  /// Where the block's next `count` keys belong.
  uint32_t* add(size_t count) {
    uint32_t* const next = keys_ + count_;
    count_ += count;
    return next;
  }

  /// The vector's next block comes from here. While the processor selects, memory brings this block.
  void readAhead(const float* vector) {
    if (vectors_ < ahead_.size()) ahead_[vectors_++] = vector;
  }

  /// Writes the indices of the selected elements; `first` is the index of the block's first element.
  void finish(size_t first, int32_t* out) {
    const size_t count = count_, k = std::min(each_, count);
    count_ = 0;
    if (k == 0) return;
    const auto begin = static_cast<int32_t>(first);
    size_t found = likely_ == kNoLimit<uint32_t> ? 0 : candidates(count, likely_, begin);
    // Wide enough that the next block hardly ever has too few candidates, and narrow enough that they are
    // few.
    if (found > 2 * k + 32) {
      slack_ = slack_ / 2 + 1;
    } else if (found < k + k / 2) {
      slack_ = std::min(2 * slack_, kMostSlack);
    }
    if (found < k || found > 4 * k + 64) found = candidates(count, limit(count, k), begin);
    const uint32_t last = detail::writeSmallest<level>(kept_, positions_, found, k, keep_, chosen_, out);
    likely_ = last < kNoLimit<uint32_t> - slack_ ? last + slack_ : kNoLimit<uint32_t>;
  }

 private:
  /// Of a float's key, a quarter of a power of two.
  static constexpr uint32_t kMostSlack = uint32_t{1} << 21;

  /// A scan asks for a line of memory after each line of keys, because many requests at once wait for each
  /// other.
  static constexpr size_t kPiece = 16;

  size_t candidates(size_t count, uint32_t limit, int32_t first) {
    size_t found = 0;
    for (size_t at = 0; at < count; at += kPiece) {
      const size_t piece = std::min(kPiece, count - at);
      for (size_t i = 0; i < vectors_; ++i) prefetchElements(ahead_[i] + at, piece);
      found += detail::compactUpTo<level, detail::Kept::kMany>(
          keys_ + at, piece, limit, first + static_cast<int32_t>(at), positions_ + found, kept_ + found);
    }
    vectors_ = 0;
    return found;
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
    return detail::limitOf<level>(work_, groups, k);
  }

  Scratch scratch_;
  std::array<const float*, 4> ahead_{};
  size_t vectors_ = 0;
  size_t each_;
  size_t count_ = 0;
  uint32_t likely_ = kNoLimit<uint32_t>;  // the last block's, with some slack
  uint32_t slack_ = kMostSlack / 2;
  uint32_t* keys_;
  uint32_t* work_;
  uint32_t* kept_;
  int32_t* positions_;
  int32_t* keep_;
  int32_t* chosen_;
};

}  // namespace hipress::ops
