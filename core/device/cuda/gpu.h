// SPDX-License-Identifier: Apache-2.0
//
// A GPU that this process uses: the driver's functions, and the GPU's primary context, which frameworks use,
// too.
#pragma once

#include <memory>
#include <string>

#include "core/base/error.h"
#include "core/device/cuda/driver.h"

namespace hipress::cuda {

struct Gpu {
  const Driver& driver;
  int ordinal;
  DriverContext context;  ///< Never released, because the framework needs it until the process ends.
  int major;              ///< Compute capability.
  int minor;

  std::string name() const { return "cuda:" + std::to_string(ordinal); }
  /// `call` names the work: "cuMemAlloc", "an encode".
  Error error(const std::string& call, Result result) const;
  void check(const std::string& call, Result result) const {
    if (result != kSuccess) throw error(call, result);
  }
};

/// The GPU with the driver's number, which CUDA_VISIBLE_DEVICES changes. Throws Unsupported that names the
/// missing part.
std::shared_ptr<const Gpu> openGpu(const std::string& driverLibrary, int ordinal);

/// Makes the GPU the current one of this thread, until the end of the scope.
class OnGpu {
 public:
  explicit OnGpu(const Gpu& gpu) : driver_(gpu.driver), status_(gpu.driver.contextPush(gpu.context)) {}
  ~OnGpu() {
    DriverContext own = nullptr;
    if (status_ == kSuccess) driver_.contextPop(&own);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  Result status() const { return status_; }

 private:
  const Driver& driver_;
  const Result status_;
};

}  // namespace hipress::cuda
