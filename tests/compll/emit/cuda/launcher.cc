// SPDX-License-Identifier: Apache-2.0
//
// The device's own launcher of kernels (core/device/cuda/kernels.h) for ctypes: on the first GPU, default
// stream.
#include <cstddef>
#include <memory>
#include <string>

#include "core/device/cuda/kernels.h"

namespace cuda = hipress::cuda;

#define HIPRESS_C_FUNCTION extern "C" __attribute__((visibility("default")))

/// Never deleted.
HIPRESS_C_FUNCTION const cuda::Launcher* hipress_test_launcher(const char* driver, const char* image,
                                                               size_t bytes) {
  const auto* module = new cuda::KernelModule(cuda::openGpu(driver, 0), "a test", std::string(image, bytes));
  return new cuda::KernelLauncher(*module, nullptr);
}

/// The first error of launches, or 0.
HIPRESS_C_FUNCTION int hipress_test_launch_status(const cuda::Launcher* launcher) {
  return static_cast<const cuda::KernelLauncher*>(launcher)->status();
}
