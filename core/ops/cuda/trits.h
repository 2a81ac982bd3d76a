// SPDX-License-Identifier: Apache-2.0
//
// Digits 0, 1 and 2 in a message, five in a byte. The digits of a byte may belong to two tiles, so kernels of
// their own pack and check them.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/trits.h"

namespace hipress::cuda {

/// For all blocks of a grid: packs a vector of digits, which has a byte for each.
HIPRESS_DEVICE inline void packTrits(const Block& block, const uint8_t* digits, size_t count,
                                     uint8_t* field) {
  const size_t bytes = ops::packedBytes(count, ops::kTrits);
  for (size_t tile = block.index * kTile; tile < bytes; tile += block.count * kTile) {
    block.elements(tileCount(tile, bytes), [&](unsigned j) {
      const size_t first = (tile + j) * ops::kTritsOfByte;
      unsigned packed = 0;
      for (size_t place = 0; place < ops::kTritsOfByte && first + place < count; ++place)
        packed += ops::weightOfTrit(place) * load(digits + first + place);
      field[tile + j] = static_cast<uint8_t>(packed);
    });
  }
}

/// For all blocks of a grid: sets *stop to `code` if a byte has a value that packTrits() never writes.
HIPRESS_DEVICE inline void checkTrits(const Block& block, const uint8_t* field, size_t count, uint32_t code,
                                      uint32_t* stop) {
  const size_t bytes = ops::packedBytes(count, ops::kTrits);
  for (size_t tile = block.index * kTile; tile < bytes; tile += block.count * kTile) {
    block.elements(tileCount(tile, bytes), [&](unsigned j) {
      if (load(field + tile + j) >= ops::limitOfTrits(tile + j, count)) *stop = code;
    });
  }
}

}  // namespace hipress::cuda
