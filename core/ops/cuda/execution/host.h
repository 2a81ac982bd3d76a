// SPDX-License-Identifier: Apache-2.0
//
// Kernels for the C++ compiler; execution.h says how to write them. The host's part of a codec starts them on
// a GPU. With HIPRESS_HOST_EXECUTION, for tests, they run on the processor: at once, and one block after the
// other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/execution/processor.h"

#define HIPRESS_DEVICE
#define HIPRESS_SHARED static thread_local
#define HIPRESS_UNROLL
#if defined(HIPRESS_HOST_EXECUTION)
/// A function that runs all blocks of a kernel. Weak, because several sources may make kernels of one header.
#define HIPRESS_KERNEL(symbol, ...)                                                                         \
  extern "C" __attribute__((weak, visibility("default"))) void symbol(const void* start, unsigned blocks) { \
    hipress::cuda::runAll(*static_cast<const hipress::cuda::Start<__VA_ARGS__>*>(start), blocks);           \
  }
#else
#define HIPRESS_KERNEL(symbol, ...)
#endif

namespace hipress::cuda {

struct Block {
  size_t index;
  size_t count;

  void sync() const {}

  template <typename Body>
  void threads(Body body) const {
    for (unsigned t = 0; t < kThreads; ++t) body(t);
  }

  template <typename Body>
  void once(Body body) const {
    body();
  }

  bool last(uint32_t* ticket) const {
    *ticket = (*ticket + 1) % static_cast<uint32_t>(count);
    return *ticket == 0;
  }

  template <typename Given, typename Made, typename Load, typename Body, typename Store>
  void rows(unsigned elements, Load load, Body body, Store store) const {
    const auto row = [&]<unsigned number>(unsigned first, Row<number> some) {
      Given given[number]{};
      Made made[number]{};
      load(first, some, given);
      for (unsigned k = number; k-- > 0;) body(first + k, given[k], made[k]);
      store(first, some, made);
    };
    if (elements == kTile) {
      for (unsigned first = kTile; first > 0;) row(first -= kRow, Row<kRow>{});
    } else {
      for (unsigned j = elements; j-- > 0;) row(j, Row<1>{});
    }
  }

  /// Backwards, because no kernel may depend on the order.
  template <typename Body>
  void elements(unsigned elements, Body body) const {
    for (unsigned j = elements; j-- > 0;) body(j);
  }
};

template <typename Kernel>
void runAll(const Start<Kernel>& start, size_t blocks) {
  const StartTable& table = start.table;
  const auto* kernel = table.number == 0 ? &start.kernel : static_cast<const Kernel*>(table.kernels);
  const auto* const behind = kernel + (table.number == 0 ? 1 : table.number);
  for (size_t first = 0; kernel != behind; ++kernel) {
    const size_t count = (table.number == 0 ? blocks : table.ends[table.number - (behind - kernel)]) - first;
    for (size_t index = 0; index < count; ++index) (*kernel)(Block{index, count});
    first += count;
  }
}

/// Starts the kernel with HIPRESS_KERNEL's name `symbol`.
template <typename Kernel>
void launch([[maybe_unused]] Stream stream, [[maybe_unused]] const char* symbol, unsigned blocks,
            const Kernel& kernel) {
#if defined(HIPRESS_HOST_EXECUTION)
  for (size_t index = 0; index < blocks; ++index) kernel(Block{index, blocks});
#else
  stream->start(*stream, symbol, blocks, &kernel, sizeof(Kernel));
#endif
}

}  // namespace hipress::cuda
