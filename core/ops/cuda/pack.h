// SPDX-License-Identifier: Apache-2.0
//
// Elements of 1 to 8 or 12 bits in a message.
#pragma once

#include <cstring>

#include "core/ops/block.h"
#include "core/ops/cuda/execution.h"
#include "core/ops/float16.h"
#include "core/ops/scalar.h"
#include "core/ops/trits.h"

namespace hipress::cuda {

/// Copies the bytes of a whole tile from shared memory, at a multiple of four, to such an address.
HIPRESS_DEVICE inline void copyTile(const Block& block, const uint8_t* codes, uint8_t* to) {
  const void* const from = __builtin_assume_aligned(codes, 4);
  void* const words = __builtin_assume_aligned(to, 4);
  block.threads([&](unsigned t) {
    for (unsigned byte = 4 * t; byte < kTile; byte += 4 * kThreads) {
      uint32_t word = 0;
      std::memcpy(&word, static_cast<const uint8_t*>(from) + byte, 4);
      std::memcpy(static_cast<uint8_t*>(words) + byte, &word, 4);
    }
  });
}

/// Writes the codes of a tile; each thread writes whole bytes. `field` is the start of the vector.
template <typename Code>
HIPRESS_DEVICE void packTile(const Block& block, const Code* codes, unsigned count, unsigned width,
                             uint8_t* field, size_t tile) {
  uint8_t* const to = field + tile * width / 8;  // a tile is a multiple of eight elements
  if constexpr (sizeof(Code) == 1) {
    if (width == 8 && count == kTile && reinterpret_cast<uintptr_t>(to) % 4 == 0)
      return copyTile(block, codes, to);
  }
  const auto bytes = static_cast<unsigned>(ops::packedBytes(count, width));
  block.threads([&](unsigned t) {
    for (unsigned byte = t; byte < bytes; byte += kThreads) {
      const unsigned first = byte * 8 / width;  // the first element that has bits in the byte
      unsigned packed = static_cast<unsigned>(codes[first]) >> (byte * 8 - first * width);
      for (unsigned j = first + 1; j < count && j * width < byte * 8 + 8; ++j)
        packed |= static_cast<unsigned>(codes[j]) << (j * width - byte * 8);
      to[byte] = static_cast<uint8_t>(packed);
    }
  });
}

/// The element's code.
HIPRESS_DEVICE inline int32_t unpackAt(const uint8_t* field, int32_t element, unsigned width) {
  if (width == ops::kTrits) {
    const auto place = static_cast<size_t>(element);
    return ops::tritOf(load(field + place / ops::kTritsOfByte), place);
  }
  const size_t bit = static_cast<size_t>(element) * width;
  unsigned bits = load(field + bit / 8);
  if (bit % 8 + width > 8) bits |= static_cast<unsigned>(load(field + bit / 8 + 1)) << 8;
  return static_cast<int32_t>((bits >> (bit % 8)) & ((1u << width) - 1u));
}

/// The element's code of two bytes.
HIPRESS_DEVICE inline int32_t unpackAt(const uint16_t* field, int32_t element, unsigned) {
  return load(field + element);
}

/// For all blocks of a grid: unpacks a vector of codes, one per int32. `isSigned`: they are two's complement.
template <bool isSigned, typename Field>
HIPRESS_DEVICE void unpackAll(const Block& block, const Field* field, size_t count, unsigned width,
                              int32_t* to) {
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count), [&](unsigned j) {
      const int32_t code = unpackAt(field, static_cast<int32_t>(tile + j), width);
      to[tile + j] = isSigned ? ops::signExtended(code, width) : code;
    });
  }
}

/// The same for a vector of float16, as floats.
HIPRESS_DEVICE inline void widenAll(const Block& block, const uint16_t* field, size_t count, float* to) {
  for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
    block.elements(tileCount(tile, count),
                   [&](unsigned j) { to[tile + j] = ops::float16Of(load(field + tile + j)); });
  }
}

/// Writes a value of 16 or 32 bits at any address.
template <typename T>
HIPRESS_DEVICE void putBytes(uint8_t* at, T value) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4);
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  for (unsigned byte = 0; byte < sizeof(T); ++byte) at[byte] = static_cast<uint8_t>(bits >> (8 * byte));
}

}  // namespace hipress::cuda
