// SPDX-License-Identifier: Apache-2.0
//
// Folds combine the elements of several ranks, for each combination and each element type. A fold has:
//   Element, Sum        the types in memory and of the intermediate result
//   load(Element)       one element as a Sum
//   combine(Sum, Sum)   adds the next rank's element
//   finish(Sum)         applies factor and rounding
// All functions are constexpr, so GPUs compute the same.
//
// If an element of any rank is NaN, the result is NaN. For zeros with different signs the minimum and the
// maximum are the lowest rank's zero.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/element/half.h"

namespace hipress {

/// Integers wrap.
struct Plus {
  template <typename T>
  static constexpr T of(T left, T right) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(left) + static_cast<Unsigned>(right));
    } else {
      return left + right;
    }
  }
};

/// Integers wrap.
struct Times {
  template <typename T>
  static constexpr T of(T left, T right) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<uint64_t>(left) * static_cast<uint64_t>(right));
    } else {
      return left * right;
    }
  }
};

struct Least {
  template <typename T>
  static constexpr T of(T left, T right) {
    return right < left || right != right ? right : left;
  }
};

struct Greatest {
  template <typename T>
  static constexpr T of(T left, T right) {
    return right > left || right != right ? right : left;
  }
};

/// Converts elements of a floating-point type to float32 and back.
template <typename T>
struct Native {
  using Element = T;
  static constexpr float widen(T value) { return static_cast<float>(value); }
  static constexpr T narrow(float value) { return value; }
  static constexpr bool isFinite(T value) { return value - value == T(0); }
};
struct Float16 {
  using Element = uint16_t;
  static constexpr float widen(uint16_t value) { return halfToFloat(value); }
  static constexpr uint16_t narrow(float value) { return floatToHalf(value); }
  static constexpr bool isFinite(uint16_t value) { return (value & 0x7c00u) != 0x7c00u; }
};
struct Bfloat16 {
  using Element = uint16_t;
  static constexpr float widen(uint16_t value) { return bfloat16ToFloat(value); }
  static constexpr uint16_t narrow(float value) { return floatToBfloat16(value); }
  static constexpr bool isFinite(uint16_t value) { return (value & 0x7f80u) != 0x7f80u; }
};

template <typename T, typename Combine>
struct FloatFold {
  using Element = T;
  using Sum = T;
  T factor;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return sum * factor; }
};

template <typename Format, typename Combine>
struct HalfFold {
  using Element = uint16_t;
  using Sum = float;
  float factor;
  static constexpr Sum load(Element element) { return Format::widen(element); }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return Format::narrow(sum * factor); }
};

template <typename T, typename Combine>
struct IntegerFold {
  using Element = T;
  using Sum = T;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return sum; }
};

template <typename T, typename Combine>
struct ScaledIntegerFold {
  using Element = T;
  using Sum = int64_t;
  double factor;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const {
    const double scaled = static_cast<double>(sum) * factor;
    // The upper limit of int64 is not a double, so the code compares with the power of two above it.
    constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double beyond = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
    if (scaled <= low) return std::numeric_limits<T>::min();
    if (scaled >= beyond) return std::numeric_limits<T>::max();
    return static_cast<T>(scaled);
  }
};

/// Sum and maximum: logical or. Minimum and product: logical and.
template <typename Combine>
struct BoolFold {
  using Element = uint8_t;
  using Sum = uint8_t;
  static constexpr Sum load(Element element) { return element != 0 ? 1 : 0; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right) != 0 ? 1 : 0; }
  constexpr Element finish(Sum sum) const { return sum; }
};

/// Integers with factor 1. Sums and products that wrap have the same bits for signed and unsigned integers.
template <typename T, typename Combine>
using ExactFold =
    IntegerFold<std::conditional_t<std::is_same_v<Combine, Plus> || std::is_same_v<Combine, Times>,
                                   std::make_unsigned_t<T>, T>,
                Combine>;

}  // namespace hipress
