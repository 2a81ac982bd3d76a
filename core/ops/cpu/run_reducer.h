// SPDX-License-Identifier: Apache-2.0
//
// The reduction of any number of elements that come in tiles, in the language's order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cpu/reduce.h"

namespace hipress::ops {

/// A sum of int32, which wraps around and so has no order: the loops add up a tile, this the tiles.
class WrappingSum {
 public:
  explicit WrappingSum(Sum) {}

  void add(int32_t tile) { sum_ = addInt(sum_, tile); }
  int32_t finish() {
    const int32_t result = sum_;
    sum_ = 0;
    return result;
  }

 private:
  int32_t sum_ = 0;
};

template <IsaLevel level, typename T, typename Combine>
class RunReducer {
 public:
  /// `partials` has room for one result per kReduceBlock elements.
  RunReducer(T* partials, Combine combine) : partials_(partials), block_(combine), combine_(combine) {}

  /// Tiles in order, all of them of a divisor of kReduceBlock elements but the last.
  template <typename Element>
  void feed(const Element* values, size_t count) {
    block_.feed(values, count);
    fed(count);
  }

  template <typename Second, typename Element>
  friend void feedPair(RunReducer& first, const Element* firstValues, RunReducer<level, T, Second>& second,
                       const Element* secondValues, size_t count) {
    feedPair(first.block(), firstValues, second.block(), secondValues, count);
    first.fed(count);
    second.fed(count);
  }

  BlockReducer<level, T, Combine>& block() { return block_; }
  void fed(size_t count) {
    fed_ += count;
    if (fed_ == kReduceBlock) close();
  }

  /// The result of what was fed, at least one element; ready for the next run then.
  T finish() {
    if (fed_ != 0) close();
    const T result = reducePartials(partials_, closed_, combine_);
    closed_ = 0;
    return result;
  }

 private:
  void close() {
    partials_[closed_++] = block_.finish();
    fed_ = 0;
  }

  T* partials_;
  BlockReducer<level, T, Combine> block_;
  Combine combine_;
  size_t fed_ = 0;
  size_t closed_ = 0;
};

}  // namespace hipress::ops
