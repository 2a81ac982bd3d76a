// SPDX-License-Identifier: Apache-2.0
//
// Linear maps of each block of a vector, as core/ops/cpu/blocks/block_transform.h: the same sums in the same
// order. All blocks of a grid share the work. A short last block is copied.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Every `size` elements times a matrix. `columns` holds its columns, `stride` elements apart.
HIPRESS_DEVICE inline void multiplyBlocks(const Block& block, const float* in, size_t length, size_t size,
                                          const float* columns, size_t stride, float* out) {
  const size_t whole = length / size * size;
  for (size_t tile = block.index * kTile; tile < length; tile += block.count * kTile) {
    block.elements(tileCount(tile, length), [&](unsigned j) {
      const size_t place = tile + j, row = place % size, first = place - row;
      if (place >= whole) {
        out[place] = load(in + place);
        return;
      }
      float sum = columns[row] * load(in + first);
      for (size_t k = 1; k < size; ++k) sum += columns[k * stride + row] * load(in + first + k);
      out[place] = sum;
    });
  }
}

inline constexpr size_t kMostHadamard = 4096;  ///< Elements of a block of hadamardBlocks() at most.

/// The Walsh-Hadamard transform of every `size` elements, a power of two, times `scale`.
HIPRESS_DEVICE inline void hadamardBlocks(const Block& block, const float* in, size_t length, size_t size,
                                          float scale, float* out) {
  HIPRESS_SHARED float values[kMostHadamard];
  const size_t each = size < kTile ? kTile : size, wholes = length - length % size;
  for (size_t first = block.index * each; first < length; first += block.count * each) {
    const auto here = static_cast<unsigned>(atMost(each, length - first));
    const auto whole = static_cast<unsigned>(wholes > first ? atMost(each, wholes - first) : 0);
    block.threads([&](unsigned t) {
      for (unsigned i = t; i < here; i += kThreads) values[i] = load(in + first + i);
    });
    block.sync();
    for (auto half = static_cast<unsigned>(size / 2); half != 0; half /= 2) {
      block.threads([&](unsigned t) {
        for (unsigned pair = t; pair < whole / 2; pair += kThreads) {
          const unsigned low = pair & (half - 1);  // a half is a power of two
          const unsigned i = 2 * (pair - low) + low;
          const float a = values[i], b = values[i + half];
          values[i] = a + b;
          values[i + half] = a - b;
        }
      });
      block.sync();
    }
    block.threads([&](unsigned t) {
      for (unsigned i = t; i < here; i += kThreads)
        out[first + i] = i < whole ? values[i] * scale : values[i];
    });
    block.sync();
  }
}

}  // namespace hipress::cuda
