// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "core/device/cuda/cuda_memory.h"
#include "core/device/device.h"

namespace hipress::cuda {

class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  /// Use std::make_shared: streams keep their device alive. Throws Unsupported if CUDA has no such GPU, or
  /// the library no code for it.
  explicit CudaDevice(int ordinal);

  std::string name() const override;
  std::shared_ptr<Memory> memory() override { return memory_; }
  std::shared_ptr<Memory> staging() override { return staging_; }
  std::unique_ptr<DeviceStream> makeStream() override;
  std::shared_ptr<const DeviceCodec> codec(const CodecPointer& codec) override;
  std::shared_ptr<void> eventOn(void* stream) override;

 private:
  const int ordinal_;
  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<CudaStaging> staging_;
};

}  // namespace hipress::cuda
