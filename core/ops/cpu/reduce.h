// SPDX-License-Identifier: Apache-2.0
//
// The order of reductions, which is part of the language. A vector has blocks of kReduceBlock elements. In a
// block, element i belongs to lane i mod kLanes. Each lane combines its elements in order, from its first
// one. Then the lanes are combined in order, without the lanes that have no element. The results of several
// blocks are reduced in the same way. Every level gives the same bits (except for the bits of a NaN).
//
// A Combine is a type with T operator()(T, T). Sum, Least and Greatest have fast code here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/element/multiversion.h"
#include "core/ops/cpu/lane_group.h"
#include "core/ops/cpu/reduce_lanes.h"
#include "core/ops/scalar.h"
#include "core/ops/tile.h"

namespace hipress::ops {

/// a + b; int32 wraps around.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_same_v<T, int32_t>) {
      return addInt(a, b);
    } else {
      return a + b;
    }
  }
};

/// min and max of the language.
struct Least {
  template <typename T>
  T operator()(T a, T b) const {
    return lesser(a, b);
  }
};
struct Greatest {
  template <typename T>
  T operator()(T a, T b) const {
    return greater(a, b);
  }
};

namespace detail {

template <typename Combine>
inline constexpr bool kKnownCombine =
    std::is_same_v<Combine, Sum> || std::is_same_v<Combine, Least> || std::is_same_v<Combine, Greatest>;

}  // namespace detail

/// Reduces one block, tile by tile. T is int32_t, float or double.
template <IsaLevel level, typename T, typename Combine>
class BlockReducer {
 public:
  explicit BlockReducer(Combine combine = Combine()) : combine_(combine) {}

  /// Adds the next elements of the block, each cast to T first. `count` is a multiple of kLanes in all calls
  /// but the last. All calls together have at most kReduceBlock elements.
  template <typename Element>
  void feed(const Element* values, size_t count) {
    const size_t begin = start(values, count);
    const size_t groups = (count - begin) / kLanes;
    if constexpr (detail::kKnownCombine<Combine>) {
      detail::CombineLanes<level>::template run<Combine>(lanes_, values + begin, groups);
    } else {
      for (size_t group = 0; group < groups; ++group) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
          lanes_[lane] = combine_(lanes_[lane], static_cast<T>(values[begin + group * kLanes + lane]));
        }
      }
    }
    rest(values, begin + groups * kLanes, count);
  }

  /// The result of the block, which must have at least one element. The next feed() begins a new block.
  T finish() {
    T result = lanes_[0];
    if (filled_ == kLanes) {
      for (size_t lane = 1; lane < kLanes; ++lane) result = combine_(result, lanes_[lane]);
    } else {
      for (size_t lane = 1; lane < filled_; ++lane) result = combine_(result, lanes_[lane]);
    }
    filled_ = 0;
    return result;
  }

  /// The lanes, for a loop that combines kLanes elements at a time, and reports their number to combined().
  LaneGroup<level, T, Combine> lanes() { return {lanes_, filled_ != 0}; }
  void combined(size_t count) {
    if (count != 0) filled_ = kLanes;
  }

 private:
  /// Gives the lanes of a new block their first elements, and returns the number of these.
  template <typename Element>
  size_t start(const Element* values, size_t count) {
    if (filled_ != 0) return 0;
    // The compiler copies a constant number of lanes in registers, and reads them again without a stall.
    filled_ = count < kLanes ? count : kLanes;
    if (filled_ == kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes_[lane] = static_cast<T>(values[lane]);
    } else {
      for (size_t lane = 0; lane < filled_; ++lane) lanes_[lane] = static_cast<T>(values[lane]);
    }
    return filled_;
  }

  /// Combines the elements from `at` on. They are fewer than the lanes.
  template <typename Element>
  void rest(const Element* values, size_t at, size_t count) {
    for (size_t lane = 0; at < count; ++at, ++lane) {
      lanes_[lane] = combine_(lanes_[lane], static_cast<T>(values[at]));
    }
  }

  alignas(64) T lanes_[kLanes] = {};
  size_t filled_ = 0;  ///< Lanes that have an element.
  [[no_unique_address]] Combine combine_;
};

/// Reduces the results of at least one block. Overwrites them.
template <typename T, typename Combine>
T reducePartials(T* partials, size_t count, Combine combine) {
  while (count > 1) {
    size_t blocks = 0;
    for (size_t begin = 0; begin < count; begin += kReduceBlock, ++blocks) {
      const size_t length = count - begin < kReduceBlock ? count - begin : kReduceBlock;
      BlockReducer<IsaLevel::kGeneric, T, Combine> block(combine);
      block.feed(partials + begin, length);
      partials[blocks] = block.finish();
    }
    count = blocks;
  }
  return partials[0];
}

}  // namespace hipress::ops
