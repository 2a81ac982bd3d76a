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
      symbol(const __grid_constant__ hipress::cuda::Start<__VA_ARGS__> start) {                   \
    hipress::cuda::runOwn(start);                                                                 \
  }

namespace hipress::cuda {

inline constexpr unsigned kResident = 4;

/// A number of the whole block of threads. It stays in shared memory, since kernels have few registers and
/// need it seldom.
template <unsigned kNumber>
struct OfBlock {
  __device__ static volatile uint32_t& place() {
    __shared__ volatile uint32_t number;
    return number;
  }
  __device__ operator size_t() const { return place(); }
};

struct Block {
  OfBlock<0> index;
  OfBlock<1> count;  ///< Blocks that share the kernel's object.

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

  /// Whether this block is the last one of its object to come here. The last block sees all earlier writes of
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

  /// Calls load(j, some, given), body(j, given, made) and store(j, some, made) for every j < elements, at
  /// most kTile; rows.h says what loads and stores. In a whole tile a thread has kRow successive elements: it
  /// loads them at once, so that it waits for memory once, and stores them at once.
  template <typename Given, typename Made, typename Load, typename Body, typename Store>
  __device__ void rows(unsigned elements, Load load, Body body, Store store) const {
    if (elements == kTile) {
      const unsigned first = kRow * threadIdx.x;
      Given given[kRow]{};
      Made made[kRow]{};
      load(first, Row<kRow>{}, given);
#pragma unroll
      for (unsigned k = 0; k < kRow; ++k) body(first + k, given[k], made[k]);
      store(first, Row<kRow>{}, made);
    } else {
#pragma unroll 1
      for (unsigned j = threadIdx.x; j < elements; j += kThreads) {
        Given given{};
        Made made{};
        load(j, Row<1>{}, &given);
        body(j, given, made);
        store(j, Row<1>{}, &made);
      }
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

/// An aligned word of 4, 8 or 16 bytes, at once.
template <size_t bytes>
struct WordOf;
template <>
struct WordOf<4> {
  using Type = unsigned;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<16> {
  using Type = uint4;
};
template <size_t bytes>
using Word = typename WordOf<bytes>::Type;

/// Which object of a table `block` works for: the first whose end is behind it. A warp looks at 32 ends at
/// once, so the search takes a read for each factor of 32.
__device__ inline uint32_t ownerOf(uint32_t block, const uint32_t* ends, uint32_t number) {
  const uint32_t lane = threadIdx.x % 32;
  uint32_t first = 0;
  while (number > 1) {
    const uint32_t each = (number + 31) / 32;
    const uint32_t last = (lane + 1) * each - 1;  // of this thread's part
    const bool isBefore = last < number && load(ends + first + last) <= block;
    const auto skipped = static_cast<uint32_t>(__popc(__ballot_sync(0xffffffffu, isBefore))) * each;
    first += skipped;
    number = number - skipped < each ? number - skipped : each;
  }
  return first;
}

/// Small objects are copied, so that their members stay in registers.
inline constexpr size_t kMostCopiedBytes = 64;

template <typename Kernel>
__device__ void runOwn(const Start<Kernel>& start) {
  const Block block;
  const StartTable& table = start.table;
  // The first warp finds what all need.
  if (threadIdx.x < 32) {
    uint32_t own = 0;
    uint32_t first = 0;
    uint32_t end = gridDim.x;
    if (table.number != 0) {
      own = ownerOf(blockIdx.x, table.ends, table.number);
      first = own == 0 ? 0u : load(table.ends + own - 1);
      end = load(table.ends + own);
    }
    block.index.place() = blockIdx.x - first;
    block.count.place() = end - first;
    OfBlock<2>::place() = own;
  }
  block.sync();
  const auto* const others = static_cast<const Kernel*>(table.kernels) + OfBlock<2>::place();
  if constexpr (sizeof(Kernel) <= kMostCopiedBytes) {
    Kernel kernel = start.kernel;
    if (table.number != 0) kernel = *others;
    // Of a pointer from a table the compiler does not know it, and its code would need more registers.
    if constexpr (requires { kernel.frame; }) __builtin_assume(__isGlobal(kernel.frame));
    kernel(block);
  } else {
    const Kernel* const kernel = table.number != 0 ? others : &start.kernel;
    (*kernel)(block);
  }
}

/// *at += value, for all threads of the grid.
__device__ inline void addTo(unsigned long long* at, unsigned long long value) {
  atomicAdd(at, value);
}
__device__ inline void addTo(uint32_t* at, uint32_t value) {
  atomicAdd(at, value);
}

/// *at, which becomes 0. Other blocks may have added to it.
template <typename T>
__device__ T take(T* at) {
  return atomicExch(at, T{0});
}

__device__ inline unsigned bitsSet(uint32_t word) {
  return static_cast<unsigned>(__popc(word));
}

}  // namespace hipress::cuda
