// SPDX-License-Identifier: Apache-2.0
#include "core/element/convert.h"

#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/element/half_kernels.h"

namespace hipress {
namespace {

template <IsaLevel level>
struct WidenHalf {
  static void run(const Unaligned<uint16_t>* source, float* output, size_t count) {
    widenHalves<level>(source, output, count);
  }
};

template <IsaLevel level>
struct NarrowHalf {
  static void run(const float* input, Unaligned<uint16_t>* output, size_t count) {
    narrowHalves<level>(input, output, count);
  }
};

template <IsaLevel>
struct WidenBfloat16 {
  static void run(const Unaligned<uint16_t>* source, float* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i] = bfloat16ToFloat(source[i].value);
  }
};

template <IsaLevel>
struct NarrowBfloat16 {
  static void run(const float* input, Unaligned<uint16_t>* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i].value = floatToBfloat16(input[i]);
  }
};

template <IsaLevel>
struct FromDouble {
  static void run(const Unaligned<double>* source, float* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i] = static_cast<float>(source[i].value);
  }
};

template <IsaLevel>
struct ToDouble {
  static void run(const float* input, Unaligned<double>* output, size_t count) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) output[i].value = static_cast<double>(input[i]);
  }
};

Error notFloatingPoint(DType dtype) {
  return unsupported("conversion between float32 and " + std::string(dtypeName(dtype)) +
                     ": only float16, bfloat16, float32 and float64 tensors can be converted");
}

}  // namespace

void widen(const void* source, DType dtype, std::span<float> output) {
  if (!isFloatingPoint(dtype)) throw notFloatingPoint(dtype);
  if (output.empty()) return;
  const auto* halves = static_cast<const Unaligned<uint16_t>*>(source);
  switch (dtype) {
    case DType::kFloat16:
      return multiversion<WidenHalf>(halves, output.data(), output.size());
    case DType::kBFloat16:
      return multiversion<WidenBfloat16>(halves, output.data(), output.size());
    case DType::kFloat64:
      return multiversion<FromDouble>(static_cast<const Unaligned<double>*>(source), output.data(),
                                      output.size());
    default:
      std::memcpy(output.data(), source, output.size_bytes());
  }
}

void narrow(std::span<const float> input, DType dtype, void* output) {
  if (!isFloatingPoint(dtype)) throw notFloatingPoint(dtype);
  if (input.empty()) return;
  auto* halves = static_cast<Unaligned<uint16_t>*>(output);
  switch (dtype) {
    case DType::kFloat16:
      return multiversion<NarrowHalf>(input.data(), halves, input.size());
    case DType::kBFloat16:
      return multiversion<NarrowBfloat16>(input.data(), halves, input.size());
    case DType::kFloat64:
      return multiversion<ToDouble>(input.data(), static_cast<Unaligned<double>*>(output), input.size());
    default:
      std::memcpy(output, input.data(), input.size_bytes());
  }
}

}  // namespace hipress
