// SPDX-License-Identifier: Apache-2.0
//
// Reduces any number of elements that come in tiles, in the language's order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cpu/reduce.h"

namespace hipress::ops {

template <IsaLevel level, typename T, typename Combine>
class RunReducer {
 public:
  /// `partials` needs room for one result per kReduceBlock elements.
  RunReducer(T* partials, Combine combine) : partials_(partials), block_(combine), combine_(combine) {}

  /// Adds tiles in order. The size of all tiles but the last must divide kReduceBlock.
  template <typename Element>
  void feed(const Element* values, size_t count) {
    block_.feed(values, count);
    fed(count);
  }

  /// See BlockReducer.
  LaneGroup<level, T, Combine> lanes() { return block_.lanes(); }
  void combined(size_t count) {
    block_.combined(count);
    fed(count);
  }

  /// The result of all elements so far, at least one. After that the reducer is ready for the next run.
  T finish() {
    if (fed_ != 0) close();
    const T result = reducePartials(partials_, closed_, combine_);
    closed_ = 0;
    return result;
  }

 private:
  void fed(size_t count) {
    fed_ += count;
    if (fed_ == kReduceBlock) close();
  }
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
