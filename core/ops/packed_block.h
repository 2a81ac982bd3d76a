// SPDX-License-Identifier: Apache-2.0
//
// Codes that are packed block by block, each block in a width of its own: the words of one block. A block
// begins with a new word of 32 bits, low bits first; bits behind its last code are 0. With a width of 0 a
// block has no words, and its codes are 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/host_device.h"

namespace hipress::ops {

inline constexpr int32_t kGreatestWidth = 8;

/// The width that a block has for any number in the program.
HIPRESS_HOST_DEVICE inline unsigned blockWidth(int32_t width) {
  return static_cast<unsigned>(width < 0 ? 0 : width > kGreatestWidth ? kGreatestWidth : width);
}

/// The words of block number `block` of `count` codes, `size` in each block.
HIPRESS_HOST_DEVICE inline uint32_t wordsOfBlock(size_t block, size_t count, size_t size, int32_t width) {
  const size_t first = block * size, left = first < count ? count - first : 0;
  return static_cast<uint32_t>(((left < size ? left : size) * blockWidth(width) + 31) / 32);
}

/// Code number i of a block whose first word is words[0].
HIPRESS_HOST_DEVICE inline int32_t codeOfBlock(const int32_t* words, size_t i, unsigned width) {
  if (width == 0) return 0;
  const size_t bit = i * width;
  uint32_t bits = static_cast<uint32_t>(words[bit / 32]) >> (bit % 32);
  // A word is read only if it has bits of the code: another might be outside of the message.
  if (bit % 32 + width > 32) bits |= static_cast<uint32_t>(words[bit / 32 + 1]) << (32 - bit % 32);
  return static_cast<int32_t>(bits & ((1u << width) - 1u));
}

/// Code number i of all. `starts` has the number of each block's first word.
HIPRESS_HOST_DEVICE inline int32_t codeOfBlocks(const int32_t* words, const uint32_t* starts,
                                                const int32_t* widths, size_t size, size_t i) {
  const size_t block = i / size;
  return codeOfBlock(words + starts[block], i % size, blockWidth(widths[block]));
}

}  // namespace hipress::ops
