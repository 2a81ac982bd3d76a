// SPDX-License-Identifier: Apache-2.0
//
// All headers that code of CompLL's CUDA emitter uses, except sort.h, which has its own kernels.
#pragma once

#include <cmath>
#include <cstring>

#include "core/ops/block.h"
#include "core/ops/cuda/arena.h"
#include "core/ops/cuda/block_codes.h"
#include "core/ops/cuda/block_select.h"
#include "core/ops/cuda/block_transform.h"
#include "core/ops/cuda/compact.h"
#include "core/ops/cuda/contributions.h"
#include "core/ops/cuda/cuda_codec.h"
#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/execution/first_kernel.h"
#include "core/ops/cuda/indices.h"
#include "core/ops/cuda/lanes.h"
#include "core/ops/cuda/order_key.h"
#include "core/ops/cuda/pack.h"
#include "core/ops/cuda/payload_reader.h"
#include "core/ops/cuda/philox.h"
#include "core/ops/cuda/prefix.h"
#include "core/ops/cuda/rows.h"
#include "core/ops/cuda/scan.h"
#include "core/ops/cuda/select.h"
#include "core/ops/cuda/tile_blocks.h"
#include "core/ops/cuda/trits.h"
#include "core/ops/exponentials.h"
#include "core/ops/float16.h"
#include "core/ops/philox.h"
#include "core/ops/put_scalar.h"
#include "core/ops/scalar.h"

namespace hipress::cuda {

/// Frame::stop if the gradient was lost: the payload is empty.
inline constexpr uint32_t kLost = 0xffffffffu;

/// For all blocks of a grid.
template <typename T>
HIPRESS_DEVICE void fillAll(const Block& block, T* values, size_t count, T value) {
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count), [&](unsigned j) { values[tile + j] = value; });
  }
}
HIPRESS_DEVICE inline void copyBytes(const Block& block, const uint8_t* from, size_t count, void* to) {
  auto* const bytes = static_cast<uint8_t*>(to);
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count), [&](unsigned j) { bytes[tile + j] = load(from + tile + j); });
  }
}

/// For all blocks of a grid: counts the values whose product with `scale` is not finite.
HIPRESS_DEVICE inline void checkFinite(const Block& block, const float* values, size_t count, float scale,
                                       unsigned long long* bad) {
  unsigned found = 0;
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count),
                   [&](unsigned j) { found += ops::isFinite(load(values + tile + j) * scale) ? 0u : 1u; });
  }
  if (found != 0) addTo(bad, static_cast<unsigned long long>(found));
}

/// For tensors without elements: sets *first to 0, and *error if the payload has bytes nevertheless.
struct Nothing {
  uint32_t* first;
  const uint32_t* payloadBytes;
  size_t capacity;
  HIPRESS_DEVICE void operator()(const Block& block) const {
    block.once([&] { *first = (payloadBytes != nullptr ? *payloadBytes : capacity) == 0 ? 0u : 1u; });
  }
};

}  // namespace hipress::cuda
