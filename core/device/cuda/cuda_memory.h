// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU, and host pages for the GPU's own copies. Plain allocations, which every GPU has: pools
// keep the blocks, so a step like earlier steps allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "core/base/memory.h"
#include "core/device/cuda/gpu.h"

namespace hipress::cuda {

class CudaMemory final : public Memory {
 public:
  /// Throws Error if the GPU cannot be used.
  explicit CudaMemory(std::shared_ptr<const Gpu> gpu);
  ~CudaMemory() override;
  CudaMemory(const CudaMemory&) = delete;
  CudaMemory& operator=(const CudaMemory&) = delete;

  void* allocate(size_t bytes) override;
  void free(void* block) override;
  void zero(void* block, size_t bytes) override;
  void read(const void* block, void* host, size_t bytes) override;
  void write(void* block, const void* host, size_t bytes) override;
  size_t blocks() const override { return blocks_; }

 private:
  /// Waits for the work on the stream.
  void finish(const char* call, Result started);

  const std::shared_ptr<const Gpu> gpu_;
  DriverStream stream_ = nullptr;  // the default stream would wait for all work of the framework
  std::atomic<size_t> blocks_{0};
};

class CudaStaging final : public Memory {
 public:
  explicit CudaStaging(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {}

  void* allocate(size_t bytes) override;
  void free(void* block) override;
  size_t blocks() const override { return blocks_; }

 private:
  const std::shared_ptr<const Gpu> gpu_;
  std::atomic<size_t> blocks_{0};
};

}  // namespace hipress::cuda
