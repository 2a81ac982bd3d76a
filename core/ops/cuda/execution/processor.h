// SPDX-License-Identifier: Apache-2.0
//
// What kernels on the processor use, one block after the other (host.h) or thread by thread (thread.h):
// memory that no other thread changes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace hipress::cuda {

/// An aligned word of 4, 8 or 16 bytes.
template <size_t bytes>
struct alignas(bytes) Word {
  uint32_t parts[bytes / 4];
};

template <typename T>
T load(const T* at) {
  return *at;
}

template <typename T>
void addTo(T* at, T value) {
  *at += value;
}

/// *at, which becomes 0.
template <typename T>
T take(T* at) {
  const T value = *at;
  *at = 0;
  return value;
}

inline unsigned bitsSet(uint32_t word) {
  return static_cast<unsigned>(std::popcount(word));
}

}  // namespace hipress::cuda
