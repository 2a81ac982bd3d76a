// SPDX-License-Identifier: Apache-2.0
//
// Makes the functions of core/device/cuda/elements.h available to ctypes.
#include "core/device/cuda/elements.h"

#include <cstddef>
#include <cstdint>
#include <span>

using hipress::DType;

extern "C" __attribute__((visibility("default"))) size_t hipress_test_scratch(size_t number, size_t count) {
  return hipress::cuda::combineScratchBytes(number, count);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_combine(
    int combination, int dtype, const void* const* contributions, size_t number, size_t count, double factor,
    void* output, void* scratch, hipress::cuda::Stream stream) {
  hipress::cuda::combineInOrder(static_cast<hipress::Combination>(combination), static_cast<DType>(dtype),
                                {contributions, number}, count, factor, output, scratch, stream);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_add(int dtype, const void* values,
                                                                        float factor, int accumulate,
                                                                        float* sum, size_t count,
                                                                        hipress::cuda::Stream stream) {
  const auto mode = accumulate != 0 ? hipress::DecodeMode::kAccumulate : hipress::DecodeMode::kAssign;
  hipress::cuda::add(static_cast<DType>(dtype), values, factor, mode, {sum, count}, stream);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_flag(int dtype, const void* values,
                                                                         size_t count, uint32_t* flag,
                                                                         hipress::cuda::Stream stream) {
  hipress::cuda::flagNotFinite(static_cast<DType>(dtype), values, count, flag, stream);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_narrow(int dtype, const float* values,
                                                                           void* output, size_t count,
                                                                           hipress::cuda::Stream stream) {
  hipress::cuda::narrow({values, count}, static_cast<DType>(dtype), output, stream);
}
