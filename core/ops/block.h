// SPDX-License-Identifier: Apache-2.0
//
// Numbers of elements, blocks and bytes, counted as the language counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/ops/host_device.h"

namespace hipress::ops {

/// A block has at least one element, for any number in the program.
HIPRESS_HOST_DEVICE inline int32_t atLeastOne(int32_t block) {
  return block < 1 ? 1 : block;
}

/// A negative count is 0.
HIPRESS_HOST_DEVICE inline size_t asCount(int32_t count) {
  return count < 0 ? 0 : static_cast<size_t>(count);
}

/// The number of blocks of `count` elements; the last block may be short.
HIPRESS_HOST_DEVICE inline size_t blockCount(size_t count, size_t block) {
  return (count + block - 1) / block;
}

/// The least number of elements that is a multiple of the block and, packed in any width, of a byte.
inline size_t blockAlignment(size_t block) {
  return std::lcm(block, size_t{8});
}

/// In place of a width in bits: digits 0, 1 and 2, of which a byte of a message holds five (trits.h).
inline constexpr unsigned kTrits = 243;
inline constexpr size_t kTritsOfByte = 5;

/// Bytes of `count` elements of `width` bits in a message.
HIPRESS_HOST_DEVICE inline size_t packedBytes(size_t count, unsigned width) {
  if (width == kTrits) return blockCount(count, kTritsOfByte);
  return (count * width + 7) / 8;
}

}  // namespace hipress::ops
