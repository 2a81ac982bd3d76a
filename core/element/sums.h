// SPDX-License-Identifier: Apache-2.0
//
// What the sum of several ranks' elements is, for every kind of element. A policy says:
//   Element, Sum        the types in memory and of the sum
//   load(Element)       one element as a Sum
//   combine(Sum, Sum)   the merge
//   finish(Sum)         factor and rounding
// Constant functions, so that GPUs compute the same.
#pragma once

#include <cstdint>
#include <limits>

#include "core/element/half.h"

namespace hipress {

template <typename T>
struct FloatSum {
  using Element = T;
  using Sum = T;
  T factor;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return left + right; }
  constexpr Element finish(Sum sum) const { return sum * factor; }
};

struct Float16Sum {
  using Element = uint16_t;
  using Sum = float;
  float factor;
  static constexpr Sum load(Element element) { return halfToFloat(element); }
  static constexpr Sum combine(Sum left, Sum right) { return left + right; }
  constexpr Element finish(Sum sum) const { return floatToHalf(sum * factor); }
};

struct Bfloat16Sum {
  using Element = uint16_t;
  using Sum = float;
  float factor;
  static constexpr Sum load(Element element) { return bfloat16ToFloat(element); }
  static constexpr Sum combine(Sum left, Sum right) { return left + right; }
  constexpr Element finish(Sum sum) const { return floatToBfloat16(sum * factor); }
};

/// `T` is unsigned: signed integers wrap through their unsigned twins.
template <typename T>
struct WrappingSum {
  using Element = T;
  using Sum = T;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return static_cast<T>(left + right); }
  constexpr Element finish(Sum sum) const { return sum; }
};

template <typename T>
struct ScaledIntegerSum {
  using Element = T;
  using Sum = uint64_t;
  double factor;
  static constexpr Sum load(Element element) { return static_cast<uint64_t>(static_cast<int64_t>(element)); }
  static constexpr Sum combine(Sum left, Sum right) { return left + right; }
  constexpr Element finish(Sum sum) const {
    const double scaled = static_cast<double>(static_cast<int64_t>(sum)) * factor;
    // The upper limit of int64 is not a double: compare with the power of two above it.
    constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double beyond = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
    if (scaled <= low) return std::numeric_limits<T>::min();
    if (scaled >= beyond) return std::numeric_limits<T>::max();
    return static_cast<T>(scaled);
  }
};

struct LogicalOr {
  using Element = uint8_t;
  using Sum = uint8_t;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return left | right; }
  constexpr Element finish(Sum sum) const { return sum != 0 ? 1 : 0; }
};

}  // namespace hipress
