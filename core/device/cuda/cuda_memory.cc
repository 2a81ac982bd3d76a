// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace hipress::cuda {
namespace {

/// Throws std::bad_alloc if memory is short, and Error for other results.
void checkAllocation(const Gpu& gpu, const char* call, Result error) {
  if (error == kOutOfMemory) throw std::bad_alloc();
  gpu.check(call, error);
}

}  // namespace

CudaMemory::CudaMemory(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)) {
  const OnGpu there(*gpu_);
  gpu_->check("cuCtxPushCurrent", there.status());
  gpu_->check("cuStreamCreate", gpu_->driver.streamCreate(&stream_, kStreamNonBlocking));
}

CudaMemory::~CudaMemory() {
  const OnGpu there(*gpu_);
  gpu_->driver.streamDestroy(stream_);
}

void* CudaMemory::allocate(size_t bytes) {
  const OnGpu there(*gpu_);
  Address block = 0;
  checkAllocation(*gpu_, "cuMemAlloc", gpu_->driver.memoryAllocate(&block, std::max<size_t>(bytes, 1)));
  ++blocks_;
  return reinterpret_cast<void*>(block);
}

void CudaMemory::free(void* block) {
  if (block == nullptr) return;
  const OnGpu there(*gpu_);
  // An earlier call has failed with the same error, and its callback has reported it.
  gpu_->driver.memoryFree(addressOf(block));
  --blocks_;
}

void CudaMemory::zero(void* block, size_t bytes) {
  const OnGpu there(*gpu_);
  if (bytes == 0) return;
  finish("cuMemsetD8Async", gpu_->driver.fillAsync(addressOf(block), 0, bytes, stream_));
}

void CudaMemory::read(const void* block, void* host, size_t bytes) {
  const OnGpu there(*gpu_);
  finish("cuMemcpyAsync", gpu_->driver.copyAsync(addressOf(host), addressOf(block), bytes, stream_));
}

void CudaMemory::write(void* block, const void* host, size_t bytes) {
  const OnGpu there(*gpu_);
  finish("cuMemcpyAsync", gpu_->driver.copyAsync(addressOf(block), addressOf(host), bytes, stream_));
}

void CudaMemory::finish(const char* call, Result started) {
  gpu_->check(call, started);
  gpu_->check("cuStreamSynchronize", gpu_->driver.streamSynchronize(stream_));
}

void* CudaStaging::allocate(size_t bytes) {
  const OnGpu there(*gpu_);
  void* block = nullptr;
  // Portable: other GPUs of this process copy from this memory just as fast.
  checkAllocation(*gpu_, "cuMemHostAlloc",
                  gpu_->driver.hostAllocate(&block, std::max<size_t>(bytes, 1), kHostAllocPortable));
  ++blocks_;
  return block;
}

void CudaStaging::free(void* block) {
  if (block == nullptr) return;
  const OnGpu there(*gpu_);
  gpu_->driver.hostFree(block);
  --blocks_;
}

}  // namespace hipress::cuda
