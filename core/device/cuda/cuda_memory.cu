// SPDX-License-Identifier: Apache-2.0
#include "core/device/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/device/cuda/calls.h"

namespace hipress::cuda {
namespace {

/// Throws std::bad_alloc if there is no more, and Error for all else.
void checkAllocation(int ordinal, const char* call, cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // is not the next call's
    throw std::bad_alloc();
  }
  check(ordinal, call, error);
}

}  // namespace

CudaMemory::CudaMemory(int ordinal) : ordinal_(ordinal) {
  const OnDevice there(ordinal_);
  check(ordinal_, "cudaSetDevice", there.status());
  check(ordinal_, "cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaMemory::~CudaMemory() {
  const OnDevice there(ordinal_);
  cudaStreamDestroy(stream_);
}

void* CudaMemory::allocate(size_t bytes) {
  const OnDevice there(ordinal_);
  void* block = nullptr;
  checkAllocation(ordinal_, "cudaMalloc", cudaMalloc(&block, std::max<size_t>(bytes, 1)));
  ++blocks_;
  return block;
}

void CudaMemory::free(void* block) {
  if (block == nullptr) return;
  const OnDevice there(ordinal_);
  // What fails here has failed before, in work whose callbacks said so.
  cudaFree(block);
  --blocks_;
}

void CudaMemory::zero(void* block, size_t bytes) {
  const OnDevice there(ordinal_);
  finish("cudaMemsetAsync", cudaMemsetAsync(block, 0, bytes, stream_));
}

void CudaMemory::read(const void* block, void* host, size_t bytes) {
  const OnDevice there(ordinal_);
  finish("cudaMemcpyAsync", cudaMemcpyAsync(host, block, bytes, cudaMemcpyDeviceToHost, stream_));
}

void CudaMemory::write(void* block, const void* host, size_t bytes) {
  const OnDevice there(ordinal_);
  finish("cudaMemcpyAsync", cudaMemcpyAsync(block, host, bytes, cudaMemcpyHostToDevice, stream_));
}

void CudaMemory::finish(const char* call, cudaError_t started) {
  check(ordinal_, call, started);
  check(ordinal_, "cudaStreamSynchronize", cudaStreamSynchronize(stream_));
}

void* CudaStaging::allocate(size_t bytes) {
  const OnDevice there(ordinal_);
  void* block = nullptr;
  // Portable: other GPUs of this process copy from it as fast.
  checkAllocation(ordinal_, "cudaHostAlloc",
                  cudaHostAlloc(&block, std::max<size_t>(bytes, 1), cudaHostAllocPortable));
  ++blocks_;
  return block;
}

void CudaStaging::free(void* block) {
  if (block == nullptr) return;
  const OnDevice there(ordinal_);
  cudaFreeHost(block);
  --blocks_;
}

void CudaStaging::zero(void* block, size_t bytes) {
  std::memset(block, 0, bytes);
}

void CudaStaging::read(const void* block, void* host, size_t bytes) {
  std::memcpy(host, block, bytes);
}

void CudaStaging::write(void* block, const void* host, size_t bytes) {
  std::memcpy(block, host, bytes);
}

}  // namespace hipress::cuda
