// SPDX-License-Identifier: Apache-2.0
//
// Checks of indices from a message or from a program.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// For all blocks of a grid: sets *stop to `code` if an index is not in a vector of `size` elements, or if
/// the indices must increase and do not.
HIPRESS_DEVICE inline void checkIndices(const Block& block, const int32_t* indices, size_t count, size_t size,
                                        bool increasing, uint32_t code, uint32_t* stop) {
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count), [&](unsigned j) {
      const size_t i = tile + j;
      const int32_t index = load(indices + i);
      const bool outside = index < 0 || static_cast<size_t>(index) >= size;
      const bool falls = increasing && i != 0 && load(indices + i - 1) >= index;
      if (outside || falls) *stop = code;
    });
  }
}

}  // namespace hipress::cuda
