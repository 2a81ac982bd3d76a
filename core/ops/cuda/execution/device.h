// SPDX-License-Identifier: Apache-2.0
//
// Kernels on a GPU, for NVRTC; execution.h says how to write them.
#pragma once

#include <cstddef>
#include <cstdint>

#define HIPRESS_DEVICE __device__
#define HIPRESS_SHARED __shared__
#define HIPRESS_UNROLL _Pragma("unroll")
/// Makes a kernel named `symbol` of a type. At least kResident blocks of threads share a multiprocessor.
#define HIPRESS_KERNEL(symbol, ...)                                                               \
  extern "C" __global__ void __launch_bounds__(hipress::cuda::kThreads, hipress::cuda::kResident) \
      symbol(const __VA_ARGS__ kernel) {                                                          \
    kernel(hipress::cuda::Block{blockIdx.x, gridDim.x});                                          \
  }

namespace hipress::cuda {

inline constexpr unsigned kResident = 4;

struct Block {
  size_t index;
  size_t count;  ///< Blocks of the grid.

  __device__ void sync() const { __syncthreads(); }

  /// Calls body(t) for every thread.
  template <typename Body>
  __device__ void threads(Body body) const {
    body(threadIdx.x);
  }

  /// Calls body() once.
  template <typename Body>
  __device__ void once(Body body) const {
    if (threadIdx.x == 0) body();
  }

  /// Whether this block is the last one of its grid to come here. The last block sees all earlier writes of
  /// the others. `*ticket` is 0 before and afterwards.
  __device__ bool last(uint32_t* ticket) const {
    __shared__ bool isLast;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      isLast = atomicAdd(ticket, 1u) == count - 1;
      if (isLast) *ticket = 0;
      __threadfence();
    }
    __syncthreads();
    return isLast;
  }

  /// Calls body(j, load(j)) for every j < elements, at most kTile. In a whole tile a thread loads all of its
  /// elements before it computes the first, so that it waits for memory once.
  template <typename Load, typename Body>
  __device__ void elements(unsigned elements, Load load, Body body) const {
    if (elements == kTile) {
      constexpr unsigned kEach = kTile / kThreads;
      decltype(load(0u)) loaded[kEach];
#pragma unroll
      for (unsigned k = 0; k < kEach; ++k) loaded[k] = load(k * kThreads + threadIdx.x);
#pragma unroll
      for (unsigned k = 0; k < kEach; ++k) body(k * kThreads + threadIdx.x, loaded[k]);
    } else {
#pragma unroll 1
      for (unsigned j = threadIdx.x; j < elements; j += kThreads) body(j, load(j));
    }
  }

  /// Calls body(j) for every j < elements, at most kTile. Successive threads have successive elements. In a
  /// whole tile the compiler sees independent elements, so that their loads overlap.
  template <typename Body>
  __device__ void elements(unsigned elements, Body body) const {
    if (elements == kTile) {
#pragma unroll
      for (unsigned j = 0; j < kTile; j += kThreads) body(j + threadIdx.x);
    } else {
      // This loop runs once per vector, so it is not unrolled: shorter code compiles sooner.
#pragma unroll 1
      for (unsigned j = threadIdx.x; j < elements; j += kThreads) body(j);
    }
  }
};

/// A value that no thread of the kernel writes.
template <typename T>
__device__ T load(const T* at) {
  return __ldg(at);
}

/// *at += value, for all threads of the grid.
__device__ inline void addTo(unsigned long long* at, unsigned long long value) {
  atomicAdd(at, value);
}
__device__ inline void addTo(uint32_t* at, uint32_t value) {
  atomicAdd(at, value);
}

__device__ inline unsigned bitsSet(uint32_t word) {
  return static_cast<unsigned>(__popc(word));
}

}  // namespace hipress::cuda
