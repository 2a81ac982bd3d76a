// SPDX-License-Identifier: Apache-2.0
//
// Chooses the fold of a combination and an element type at run time.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/element/dtype.h"
#include "core/element/folds.h"
#include "core/element/reduce.h"

namespace hipress {

/// Calls use(fold) with the fold of `dtype`, which multiplies its result by `factor`. Throws InvalidArgument.
template <typename Combine, typename Use>
void withFold(DType dtype, double factor, const Use& use) {
  const auto integers = [&]<typename T>(T) {
    if (factor == 1.0) return use(ExactFold<T, Combine>{});
    use(ScaledIntegerFold<T, Combine>{factor});
  };
  const auto single = static_cast<float>(factor);
  switch (dtype) {
    case DType::kFloat32:
      return use(FloatFold<float, Combine>{single});
    case DType::kFloat64:
      return use(FloatFold<double, Combine>{factor});
    case DType::kFloat16:
      return use(HalfFold<Float16, Combine>{single});
    case DType::kBFloat16:
      return use(HalfFold<Bfloat16, Combine>{single});
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
      return use(BoolFold<Combine>{});
  }
  throw invalidArgument("dtype number " + std::to_string(static_cast<int>(dtype)) + " does not exist");
}

/// The same for a combination that is known only at run time.
template <typename Use>
void withFold(Combination combination, DType dtype, double factor, const Use& use) {
  switch (combination) {
    case Combination::kSum:
      return withFold<Plus>(dtype, factor, use);
    case Combination::kMin:
      return withFold<Least>(dtype, factor, use);
    case Combination::kMax:
      return withFold<Greatest>(dtype, factor, use);
    case Combination::kProduct:
      return withFold<Times>(dtype, factor, use);
  }
}

}  // namespace hipress
