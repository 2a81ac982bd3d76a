// SPDX-License-Identifier: Apache-2.0
//
// Makes the device's own kernel launcher (core/device/cuda/kernels.h) available to ctypes, on the first GPU
// and the default stream.
#include <cstddef>
#include <memory>
#include <string>

#include "core/device/cuda/kernels.h"

namespace cuda = hipress::cuda;

#define HIPRESS_C_FUNCTION extern "C" __attribute__((visibility("default")))

/// The launcher; it is never deleted.
HIPRESS_C_FUNCTION const cuda::Launcher* hipress_test_launcher(const char* driver, const char* image,
                                                               size_t bytes) {
  const auto* module = new cuda::KernelModule(cuda::openGpu(driver, 0), "a test", std::string(image, bytes));
  return new cuda::KernelLauncher(*module, nullptr);
}

/// The first error of this launcher's launches, or 0.
HIPRESS_C_FUNCTION int hipress_test_launch_status(const cuda::Launcher* launcher) {
  return static_cast<const cuda::KernelLauncher*>(launcher)->status();
}
