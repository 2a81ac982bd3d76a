// SPDX-License-Identifier: Apache-2.0
//
// How to write kernels. A kernel is a type with `void operator()(const Block&) const`, which runs once for
// every block of threads. Work of all threads goes through the block's functions. Between a write to shared
// memory and another thread's read comes block.sync(). All other code of a kernel does the same on all
// threads of a block. So the same source runs on a GPU, where each thread calls the kernel, and for tests on
// a processor, where one call serves a block and threads are loops.
//
// Three compilers read a source with kernels. NVRTC makes the GPU's code. The C++ compiler makes the host's
// part, which starts kernels by their symbols. For tests the C++ compiler makes kernels that run on the
// processor: with HIPRESS_HOST_EXECUTION step by step, and with HIPRESS_THREAD_EXECUTION thread by thread,
// which shows a missing block.sync().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/launcher.h"
#include "core/ops/cuda/start.h"
#include "core/ops/tile.h"

namespace hipress::cuda {

inline constexpr unsigned kThreads = 256;  ///< Threads of a block.
inline constexpr unsigned kTile = 1024;    ///< Elements that a block computes at a time.
inline constexpr size_t kMostBlocks =
    4096;  ///< blocks of a grid: more than run at once, few enough to start quickly

/// Successive elements of which a thread loads and stores all at once.
inline constexpr unsigned kRow = kTile / kThreads;
template <unsigned number>
struct Row {};

static_assert(kTile % kThreads == 0 && ops::kReduceBlock % kTile == 0);

/// Blocks for up to `count` elements, `each` at a time. A kernel continues until all elements are done.
inline unsigned gridFor(size_t count, size_t each = kTile) {
  const size_t blocks = (count + each - 1) / each;
  return blocks == 0 ? 1u : static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace hipress::cuda

#if defined(__CUDACC_RTC__)
#include "core/ops/cuda/execution/device.h"
#elif defined(HIPRESS_THREAD_EXECUTION)
#include "core/ops/cuda/execution/thread.h"
#else
#include "core/ops/cuda/execution/host.h"
#endif

namespace hipress::cuda {

/// Elements of the tile that begins at `tile`, in a vector of `length`.
HIPRESS_DEVICE inline unsigned tileCount(size_t tile, size_t length) {
  return length - tile < kTile ? static_cast<unsigned>(length - tile) : kTile;
}

HIPRESS_DEVICE inline size_t atMost(size_t value, size_t limit) {
  return value < limit ? value : limit;
}

}  // namespace hipress::cuda
