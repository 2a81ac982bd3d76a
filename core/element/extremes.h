// SPDX-License-Identifier: Apache-2.0
//
// Minimum, maximum and product of several ranks' elements, as policies like those of sums.h.
//
// A NaN of any rank is the result, as it is a sum's. Of zeros with different signs the lowest rank's counts.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/element/dtype.h"
#include "core/element/half.h"
#include "core/element/reduce.h"
#include "core/element/sums.h"
#include "core/error.h"

namespace hipress {

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

template <typename T, typename Combine>
struct FloatExtreme {
  using Element = T;
  using Sum = T;
  T factor;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return sum * factor; }
};

/// `Narrow` is the sum's policy: how its elements become float32 and back is the same.
template <typename Narrow, typename Combine>
struct NarrowExtreme {
  using Element = uint16_t;
  using Sum = float;
  Narrow narrow;
  static constexpr Sum load(Element element) { return Narrow::load(element); }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return narrow.finish(sum); }
};

template <typename T, typename Combine>
struct IntegerExtreme {
  using Element = T;
  using Sum = T;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return sum; }
};

/// In int64, as a scaled sum is.
template <typename T, typename Combine>
struct ScaledIntegerExtreme {
  using Element = T;
  using Sum = int64_t;
  ScaledIntegerSum<T> scaled;
  static constexpr Sum load(Element element) { return element; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return scaled.finish(static_cast<uint64_t>(sum)); }
};

/// Least and Times of booleans: logical and. Greatest: logical or.
template <typename Combine>
struct BoolExtreme {
  using Element = uint8_t;
  using Sum = uint8_t;
  static constexpr Sum load(Element element) { return element != 0 ? 1 : 0; }
  static constexpr Sum combine(Sum left, Sum right) { return Combine::of(left, right); }
  constexpr Element finish(Sum sum) const { return sum; }
};

/// use(policy) with the one for elements of `dtype`, whose result is multiplied by `factor`. Throws
/// InvalidArgument.
template <typename Combine, typename Use>
void withExtreme(DType dtype, double factor, const Use& use) {
  const auto integers = [&]<typename T>(T) {
    if (factor == 1.0) return use(IntegerExtreme<T, Combine>{});
    use(ScaledIntegerExtreme<T, Combine>{{factor}});
  };
  const auto single = static_cast<float>(factor);
  switch (dtype) {
    case DType::kFloat32:
      return use(FloatExtreme<float, Combine>{single});
    case DType::kFloat64:
      return use(FloatExtreme<double, Combine>{factor});
    case DType::kFloat16:
      return use(NarrowExtreme<Float16Sum, Combine>{{single}});
    case DType::kBFloat16:
      return use(NarrowExtreme<Bfloat16Sum, Combine>{{single}});
    case DType::kUInt8:
      return integers(uint8_t{});
    case DType::kInt8:
      return integers(int8_t{});
    case DType::kInt16:
      return integers(int16_t{});
    case DType::kInt32:
      return integers(int32_t{});
    case DType::kInt64:
      return integers(int64_t{});
    case DType::kBool:
      return use(BoolExtreme<Combine>{});
  }
  throw invalidArgument("dtype number " + std::to_string(static_cast<int>(dtype)) + " does not exist");
}

template <typename Use>
void withExtreme(Combination combination, DType dtype, double factor, const Use& use) {
  if (combination == Combination::kMin) return withExtreme<Least>(dtype, factor, use);
  if (combination == Combination::kMax) return withExtreme<Greatest>(dtype, factor, use);
  withExtreme<Times>(dtype, factor, use);
}

}  // namespace hipress
