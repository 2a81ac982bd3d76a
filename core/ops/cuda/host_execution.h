// SPDX-License-Identifier: Apache-2.0
//
// Kernels on a processor, for tests where there is no GPU; execution.h says how they are written. Blocks run
// one after the other; launches at once, or where HIPRESS_HOST_STREAMS is defined as the test's streams do.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>

#define HIPRESS_DEVICE
#define HIPRESS_SHARED static thread_local

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

  /// Backwards: nothing may depend on an order.
  template <typename Body>
  void elements(unsigned elements, Body body) const {
    for (unsigned j = elements; j-- > 0;) body(j);
  }
};

#if defined(HIPRESS_HOST_STREAMS)
/// The test's: puts it on a stream.
void runOnHost(Stream stream, std::function<void()> work);

template <typename Kernel>
void launch(Stream stream, unsigned blocks, const Kernel& kernel) {
  runOnHost(stream, [blocks, kernel] {
    for (size_t index = 0; index < blocks; ++index) kernel(Block{index, blocks});
  });
}
#else
template <typename Kernel>
void launch(Stream, unsigned blocks, const Kernel& kernel) {
  for (size_t index = 0; index < blocks; ++index) kernel(Block{index, blocks});
}
#endif

template <typename T>
T load(const T* at) {
  return *at;
}

template <typename T>
void addTo(T* at, T value) {
  *at += value;
}

inline unsigned bitsSet(uint32_t word) {
  return static_cast<unsigned>(std::popcount(word));
}

}  // namespace hipress::cuda
