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
#include <string>

#include "core/element/dtype.h"
#include "core/element/half.h"
#include "core/error.h"

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

/// use(policy) with the one for elements of `dtype` whose sum is multiplied by `factor`. Throws
/// InvalidArgument.
template <typename Use>
void withSum(DType dtype, double factor, const Use& use) {
  const auto integers = [&]<typename Signed, typename Unsigned>(Signed, Unsigned) {
    if (factor == 1.0) return use(WrappingSum<Unsigned>{});
    use(ScaledIntegerSum<Signed>{factor});
  };
  switch (dtype) {
    case DType::kFloat32:
      return use(FloatSum<float>{static_cast<float>(factor)});
    case DType::kFloat64:
      return use(FloatSum<double>{factor});
    case DType::kFloat16:
      return use(Float16Sum{static_cast<float>(factor)});
    case DType::kBFloat16:
      return use(Bfloat16Sum{static_cast<float>(factor)});
    case DType::kUInt8:
      return integers(uint8_t{}, uint8_t{});
    case DType::kInt8:
      return integers(int8_t{}, uint8_t{});
    case DType::kInt16:
      return integers(int16_t{}, uint16_t{});
    case DType::kInt32:
      return integers(int32_t{}, uint32_t{});
    case DType::kInt64:
      return integers(int64_t{}, uint64_t{});
    case DType::kBool:
      return use(LogicalOr{});
  }
  throw invalidArgument("dtype number " + std::to_string(static_cast<int>(dtype)) + " does not exist");
}

}  // namespace hipress
