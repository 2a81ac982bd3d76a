// SPDX-License-Identifier: Apache-2.0
//
// Packing block by block (core/ops/packed_block.h), for loops over blocks: with the groups of block_groups.h
// where the level has them. Elsewhere the width is a constant within a block, so that eight codes are shifted
// into a register of 64 bits by constants.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/element/multiversion.h"
#include "core/ops/cpu/packing/block_groups.h"
#include "core/ops/cpu/packing/pack_spanning.h"
#include "core/ops/packed_block.h"

namespace hipress::ops {

/// Writes the number of each block's first word to `starts`. Returns the number of words of all blocks.
inline size_t blockStarts(const int32_t* widths, size_t blocks, size_t count, size_t size, uint32_t* starts) {
  // All whole blocks of a width have the same number of words.
  uint32_t ofWidth[kGreatestWidth + 1];
  for (int32_t width = 0; width <= kGreatestWidth; ++width)
    ofWidth[width] = wordsOfBlock(0, size, size, width);
  const size_t whole = std::min(blocks, size == 0 ? 0 : count / size);
  uint32_t words = 0;
  for (size_t block = 0; block < whole; ++block) {
    starts[block] = words;
    words += ofWidth[blockWidth(widths[block])];
  }
  for (size_t block = whole; block < blocks; ++block) {
    starts[block] = words;
    words += wordsOfBlock(block, count, size, widths[block]);
  }
  return words;
}

namespace detail {

template <unsigned width>
void packBlockCodes(const uint8_t* __restrict codes, size_t count, uint8_t* __restrict to) {
  constexpr uint64_t most = 0x0101010101010101u * ((1u << width) - 1u);
  size_t i = 0;
  for (; i + 8 <= count; i += 8, to += width) {
    uint8_t fitting[8];
    for (size_t j = 0; j < 8; ++j) fitting[j] = std::min(codes[i + j], static_cast<uint8_t>(most));
    const uint64_t packed = gatherCodes(fitting, width);
    std::memcpy(to, &packed, width);
  }
  uint64_t packed = 0;
  for (size_t j = 0; i + j < count; ++j) {
    packed |= static_cast<uint64_t>(std::min(codes[i + j], static_cast<uint8_t>(most))) << (j * width);
  }
  std::memcpy(to, &packed, ((count - i) * width + 7) / 8);
}

template <unsigned width>
void unpackBlockCodes(const uint8_t* __restrict from, size_t count, int32_t* __restrict codes) {
  constexpr uint64_t mask = (1u << width) - 1u;
  size_t i = 0;
  for (; i + 8 <= count; i += 8, from += width) {
    uint64_t packed = 0;
    std::memcpy(&packed, from, width);
    for (size_t j = 0; j < 8; ++j) codes[i + j] = static_cast<int32_t>(packed >> (j * width) & mask);
  }
  uint64_t packed = 0;
  std::memcpy(&packed, from, ((count - i) * width + 7) / 8);
  for (size_t j = 0; i + j < count; ++j) codes[i + j] = static_cast<int32_t>(packed >> (j * width) & mask);
}

/// How far ahead the memory of the words is asked for: 4 KiB.
inline constexpr size_t kWordsAhead = 1024;

/// Calls `call` with the width, 1 to 8, as a constant.
template <typename Call>
void withWidth(unsigned width, const Call& call) {
  switch (width) {
    case 1:
      return call.template operator()<1>();
    case 2:
      return call.template operator()<2>();
    case 3:
      return call.template operator()<3>();
    case 4:
      return call.template operator()<4>();
    case 5:
      return call.template operator()<5>();
    case 6:
      return call.template operator()<6>();
    case 7:
      return call.template operator()<7>();
    default:
      return call.template operator()<8>();
  }
}

}  // namespace detail

/// Packs `count` codes, from code number `first` of their block on, which is a multiple of 32. Codes that do
/// not fit become the greatest code that does. Fills the last word with zeros and writes no other word.
template <IsaLevel level>
void packTileOfBlock(const uint8_t* codes, size_t first, size_t count, int32_t width, int32_t* block) {
  using Group = detail::BlockGroup<level>;
  const unsigned bits = blockWidth(width);
  if (bits == 0 || count == 0) return;
  int32_t* const words = block + first * bits / 32;
  if constexpr (Group::kCodes != 0) {
    const size_t whole = count / Group::kCodes * Group::kCodes;
    for (size_t i = 0; i < whole; i += Group::kCodes) {
      Group::pack(codes + i, Group::kCodes, bits, words + i * bits / 32);
    }
    if (whole == count) return;
    uint8_t rest[Group::kCodes] = {};
    std::memcpy(rest, codes + whole, count - whole);
    Group::pack(rest, count - whole, bits, words + whole * bits / 32);
  } else {
    words[(count * bits + 31) / 32 - 1] = 0;
    detail::withWidth(bits, [&]<unsigned kWidth>() {
      detail::packBlockCodes<kWidth>(codes, count, reinterpret_cast<uint8_t*>(words));
    });
  }
}

/// An unpacked code: a byte where groups are unpacked.
template <IsaLevel level>
using BlockCode = std::conditional_t<detail::BlockGroup<level>::kCodes != 0, uint8_t, int32_t>;

/// The inverse of packTileOfBlock(). `codes` has room for `count` rounded up to a multiple of 64.
template <IsaLevel level>
void unpackTileOfBlock(const int32_t* block, size_t first, size_t count, int32_t width,
                       BlockCode<level>* codes) {
  using Group = detail::BlockGroup<level>;
  const unsigned bits = blockWidth(width);
  if (bits == 0) {
    std::fill_n(codes, count, BlockCode<level>{0});
    return;
  }
  const int32_t* const words = block + first * bits / 32;
  if constexpr (Group::kCodes != 0) {
    for (size_t i = 0; i < count; i += Group::kCodes) {
      // A processor foresees few of these reads, because the length of a block differs from the last one's.
      __builtin_prefetch(words + i * bits / 32 + detail::kWordsAhead, 0, 3);
      Group::unpack(words + i * bits / 32, std::min(count - i, Group::kCodes), bits, codes + i);
    }
  } else {
    const auto* const from = reinterpret_cast<const uint8_t*>(words);
    detail::withWidth(bits, [&]<unsigned kWidth>() { detail::unpackBlockCodes<kWidth>(from, count, codes); });
  }
}

}  // namespace hipress::ops
