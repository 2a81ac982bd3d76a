// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

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

}  // namespace hipress::ops
