// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/tile.h"

namespace hipress::ops {

/// Prefetches the next tile of floats, so that memory works while the loop computes on this tile. Between two
/// loops over memory come loops over the first cache level, in which the processor stops its own prefetch.
/// `tile` may be behind the end of the vector.
template <size_t elements>
void prefetchTile(const float* tile) {
  constexpr size_t line = 64 / sizeof(float);
  for (size_t i = 0; i < elements; i += line) __builtin_prefetch(tile + i, 0, 3);
}

/// The same for `count` floats.
inline void prefetchElements(const float* first, size_t count) {
  constexpr size_t line = 64 / sizeof(float);
  for (size_t i = 0; i < count; i += line) __builtin_prefetch(first + i, 0, 3);
}

/// Prefetches the part of a message that follows in a while, before a loop writes `bytes` bytes at `to`. A
/// loop writes a message in short pieces between its computations. The processor does not foresee such
/// writes, and waits for memory with each of them. The part may be behind the end of the message.
inline void prefetchMessage(const uint8_t* to, size_t bytes) {
  constexpr size_t ahead = 1024;
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(to + ahead + i, 1, 3);
}

}  // namespace hipress::ops
