// SPDX-License-Identifier: Apache-2.0
//
// Finds the block of `size` elements to which an element belongs, without a division for each tile or
// element.
#pragma once

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// The size of blocks, and what replaces divisions by it. Made once for a kernel.
class BlockSize {
 public:
  /// For a vector of less than 2^31 elements; `size` is positive.
  HIPRESS_DEVICE explicit BlockSize(size_t size)
      : size_(static_cast<uint32_t>(size)),
        inverse_(size_ == 1 ? 0 : ~uint64_t{0} / size_ + 1),
        short_((0x7fffffffu + size_) / size_) {}

  HIPRESS_DEVICE uint32_t size() const { return size_; }

  /// element / size. The inverse is 2^64 / size, rounded up; the upper 64 bits of the product are the
  /// quotient of any numbers of 32 bits (Lemire, Kaser, Kurz: Faster remainder by direct computation, 2019).
  HIPRESS_DEVICE uint32_t quotient(uint32_t element) const {
    if (size_ == 1) return element;
    const uint64_t low = (inverse_ & 0xffffffffu) * element, high = (inverse_ >> 32) * element;
    return static_cast<uint32_t>((high + (low >> 32)) >> 32);
  }

  /// The same for numbers whose product is below 2^31, with one multiplication: `short_` is 2^31 / size,
  /// rounded up.
  HIPRESS_DEVICE uint32_t quotientOfSmall(uint32_t element) const {
    return static_cast<uint32_t>((static_cast<uint64_t>(element) * short_) >> 31);
  }

 private:
  uint32_t size_;
  uint64_t inverse_;
  uint32_t short_;
};

/// Made once for a tile.
class TileBlocks {
 public:
  HIPRESS_DEVICE TileBlocks(size_t tile, const BlockSize& size)
      : size_(size),
        first_(size.quotient(static_cast<uint32_t>(tile))),
        offset_(static_cast<uint32_t>(tile) - first_ * size.size()) {}

  /// The block of element j < kTile of the tile.
  HIPRESS_DEVICE int32_t of(unsigned j) const {
    const uint32_t from = offset_ + j;
    const uint32_t more = size_.size() < kTile ? size_.quotientOfSmall(from) : (from >= size_.size() ? 1 : 0);
    return static_cast<int32_t>(first_ + more);
  }

 private:
  const BlockSize& size_;
  uint32_t first_;
  uint32_t offset_;
};

/// values[index], or 0 if there is no such element. No thread of the kernel may write the values.
template <typename T>
HIPRESS_DEVICE T loadInside(const T* values, size_t count, int32_t index) {
  return static_cast<size_t>(index) < count ? load(values + index) : T{};
}

}  // namespace hipress::cuda
