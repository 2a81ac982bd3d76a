// SPDX-License-Identifier: Apache-2.0
//
// Finds the block of `size` elements to which an element belongs, without a division for each element.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// Made once for a tile.
class TileBlocks {
 public:
  /// For a vector of less than 2^31 elements; `size` is positive.
  HIPRESS_DEVICE TileBlocks(size_t tile, size_t size)
      : size_(static_cast<uint32_t>(size)),
        first_(static_cast<int32_t>(static_cast<uint32_t>(tile) / size_)),
        offset_(static_cast<uint32_t>(tile) % size_),
        // Below 2^16, the product's upper half is exactly the quotient of numbers below 2^16.
        reciprocal_(size < kTile ? 0xffffffffu / size_ + 1 : 0) {}

  /// The block of element j < kTile of the tile.
  HIPRESS_DEVICE int32_t of(unsigned j) const {
    const uint32_t from = offset_ + j;
    if (size_ >= kTile) return first_ + (from >= size_ ? 1 : 0);
    if (size_ == 1) return first_ + static_cast<int32_t>(j);
    return first_ + static_cast<int32_t>((static_cast<uint64_t>(from) * reciprocal_) >> 32);
  }

 private:
  uint32_t size_;
  int32_t first_;
  uint32_t offset_;
  uint32_t reciprocal_;
};

/// values[index], or 0 if there is no such element. No thread of the kernel may write the values.
template <typename T>
HIPRESS_DEVICE T loadInside(const T* values, size_t count, int32_t index) {
  return static_cast<size_t>(index) < count ? load(values + index) : T{};
}

}  // namespace hipress::cuda
