// SPDX-License-Identifier: Apache-2.0
//
// Memory of a GPU, and pages of the host that it copies from and to on its own. Plain allocations: the pools
// above keep what they have, so that none is made in a step like those before, and every GPU has them.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstddef>

#include "core/codec/memory.h"

namespace hipress::cuda {

class CudaMemory final : public Memory {
 public:
  /// Throws Error if the GPU cannot be used.
  explicit CudaMemory(int ordinal);
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
  /// Waits for what was put on the stream.
  void finish(const char* call, cudaError_t started);

  const int ordinal_;
  cudaStream_t stream_ = nullptr;  // its own: the default one would wait for all of the framework's work
  std::atomic<size_t> blocks_{0};
};

class CudaStaging final : public Memory {
 public:
  explicit CudaStaging(int ordinal) : ordinal_(ordinal) {}

  void* allocate(size_t bytes) override;
  void free(void* block) override;
  void zero(void* block, size_t bytes) override;
  void read(const void* block, void* host, size_t bytes) override;
  void write(void* block, const void* host, size_t bytes) override;
  size_t blocks() const override { return blocks_; }

 private:
  const int ordinal_;
  std::atomic<size_t> blocks_{0};
};

}  // namespace hipress::cuda
