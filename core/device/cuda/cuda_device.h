// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/cuda_memory.h"
#include "core/device/cuda/kernels.h"
#include "core/device/device.h"

namespace hipress::cuda {

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  /// Use makeCudaDevice(), because streams keep their device alive.
  CudaDevice(std::shared_ptr<const Gpu> gpu, KernelCompiler compiler);

  std::string name() const override { return gpu_->name(); }
  std::shared_ptr<Memory> memory() override { return memory_; }
  std::shared_ptr<Memory> staging() override { return staging_; }
  std::unique_ptr<DeviceStream> makeStream() override;
  std::unique_ptr<DeviceStream> makeStreamOn(void* stream) override;
  std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) override;
  std::shared_ptr<void> eventOn(void* stream) override;

 private:
  const std::shared_ptr<const Gpu> gpu_;
  const std::shared_ptr<Kernels> kernels_;
  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<CudaStaging> staging_;
};

/// The GPU with this number (CUDA's, which CUDA_VISIBLE_DEVICES changes), with its own streams and pools.
/// Several ranks, and several of these devices in one process, may share a GPU. `driver`: the driver's
/// library. Throws Unsupported with the missing part: the driver, the GPU, or a compiler of kernels.
std::shared_ptr<Device> makeCudaDevice(int ordinal, KernelCompiler compiler,
                                       const std::string& driver = "libcuda.so.1");

}  // namespace hipress::cuda
