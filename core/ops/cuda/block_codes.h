// SPDX-License-Identifier: Apache-2.0
//
// Packing block by block (core/ops/packed_block.h): a thread makes a word from the codes that have bits in
// it.
#pragma once

#include "core/ops/cuda/execution.h"
#include "core/ops/packed_block.h"

namespace hipress::cuda {

/// By all blocks of a grid: the number of words of each block of `count` codes.
HIPRESS_DEVICE inline void countBlockWords(const Block& block, const int32_t* widths, size_t blocks,
                                           size_t count, size_t size, uint32_t* words) {
  for (size_t tile = block.index * kTile; tile < blocks; tile += block.count * kTile) {
    block.elements(tileCount(tile, blocks), [&](unsigned j) {
      words[tile + j] = ops::wordsOfBlock(tile + j, count, size, load(widths + tile + j));
    });
  }
}

/// Word number `word` of a block of `count` codes.
HIPRESS_DEVICE inline int32_t wordOfCodes(const uint8_t* codes, size_t count, unsigned width, size_t word) {
  const uint32_t most = (1u << width) - 1u;
  const size_t first = word * 32 / width, end = (word * 32 + 32 + width - 1) / width;
  uint32_t bits = 0;
  for (size_t i = first; i < end && i < count; ++i) {
    const uint32_t given = load(codes + i), code = given < most ? given : most;
    const size_t bit = i * width;
    bits |= bit >= word * 32 ? code << (bit - word * 32) : code >> (word * 32 - bit);
  }
  return static_cast<int32_t>(bits);
}

/// By all blocks of a grid: packs `count` codes, `size` in each block. `starts` has the number of each
/// block's first word. Codes that do not fit become the greatest code that does.
HIPRESS_DEVICE inline void packBlocks(const Block& block, const uint8_t* codes, size_t count, size_t size,
                                      const int32_t* widths, const uint32_t* starts, int32_t* words) {
  const size_t blocks = (count + size - 1) / size;
  const size_t each = (size + 3) / 4;  // the most words of a block
  const size_t all = blocks * each;
  for (size_t tile = block.index * kTile; tile < all; tile += block.count * kTile) {
    block.elements(tileCount(tile, all), [&](unsigned j) {
      const size_t number = (tile + j) / each, word = (tile + j) % each;
      const int32_t width = load(widths + number);
      if (word >= ops::wordsOfBlock(number, count, size, width)) return;
      const size_t first = number * size;
      words[starts[number] + word] =
          wordOfCodes(codes + first, atMost(size, count - first), ops::blockWidth(width), word);
    });
  }
}

}  // namespace hipress::cuda
