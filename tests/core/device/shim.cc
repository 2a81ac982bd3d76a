// SPDX-License-Identifier: Apache-2.0
//
// The element kernels for ctypes: compiled by the C++ compiler they run on the processor, by nvcc on a GPU.
#include "core/device/cuda/elements.h"

#include <cstddef>
#include <span>

using hipress::DType;

extern "C" __attribute__((visibility("default"))) size_t hipress_test_scratch(size_t number, size_t count) {
  return hipress::cuda::reduceScratchBytes(number, count);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_reduce(int dtype,
                                                                           const void* const* contributions,
                                                                           size_t number, size_t count,
                                                                           double factor, void* output,
                                                                           void* scratch) {
  hipress::cuda::reduceInOrder(static_cast<DType>(dtype), {contributions, number}, count, factor, output,
                               scratch, nullptr);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_add(int dtype, const void* values,
                                                                        float factor, int accumulate,
                                                                        float* sum, size_t count) {
  const auto mode = accumulate != 0 ? hipress::DecodeMode::kAccumulate : hipress::DecodeMode::kAssign;
  hipress::cuda::add(static_cast<DType>(dtype), values, factor, mode, {sum, count}, nullptr);
}

extern "C" __attribute__((visibility("default"))) void hipress_test_narrow(int dtype, const float* values,
                                                                           void* output, size_t count) {
  hipress::cuda::narrow({values, count}, static_cast<DType>(dtype), output, nullptr);
}
