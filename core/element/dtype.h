// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors, with their numbers in messages and in the C API. The numbers never change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hipress {

enum class DType : uint8_t {
  kFloat32 = 0,
  kFloat64 = 1,
  kFloat16 = 2,
  kBFloat16 = 3,
  kUInt8 = 4,
  kInt8 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 8,
  kInt16 = 9,
};
inline constexpr int kDTypeCount = 10;

/// Bytes per element.
constexpr size_t elementSize(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kInt16:
      return 2;
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr bool isFloatingPoint(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16;
}

constexpr std::string_view dtypeName(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"float32", "float64", "float16", "bfloat16", "uint8",
                                                   "int8",    "int32",   "int64",   "bool",     "int16"};
  const auto index = static_cast<size_t>(dtype);
  return index < kDTypeCount ? names[index] : "unknown";
}

}  // namespace hipress
