// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/gpu.h"

namespace hipress::cuda {
namespace {

/// Older GPUs have neither the memory order nor the instructions that the tests cover.
constexpr int kLeastMajor = 8;

}  // namespace

Error Gpu::error(const std::string& call, Result result) const {
  return transportError("device " + name() + " failed: " + driver.errorText(result) + " in " + call);
}

std::shared_ptr<const Gpu> openGpu(const std::string& driverLibrary, int ordinal) {
  const std::string who = "cuda:" + std::to_string(ordinal) + " cannot be used:";
  const Driver& driver = loadDriver(driverLibrary, who);
  const auto checked = [&](Result result) {
    if (result != kSuccess)
      throw unsupported(who + " " + driver.errorText(result) + "; see what nvidia-smi says");
  };
  int count = 0;
  checked(driver.deviceGetCount(&count));
  if (ordinal < 0 || ordinal >= count) {
    throw unsupported(who + " CUDA finds " + std::to_string(count) +
                      " GPUs, numbered from 0; CUDA_VISIBLE_DEVICES may hide others");
  }
  int device = 0;
  int major = 0;
  int minor = 0;
  DriverContext context = nullptr;
  checked(driver.deviceGet(&device, ordinal));
  checked(driver.deviceGetAttribute(&major, kComputeCapabilityMajor, device));
  checked(driver.deviceGetAttribute(&minor, kComputeCapabilityMinor, device));
  if (major < kLeastMajor) {
    throw unsupported(who + " its compute capability is " + std::to_string(major) + "." +
                      std::to_string(minor) + ", and HiPress needs 8.0; synchronise tensors on the CPU");
  }
  checked(driver.primaryContextRetain(&context, device));
  return std::make_shared<Gpu>(Gpu{driver, ordinal, context, major, minor});
}

}  // namespace hipress::cuda
