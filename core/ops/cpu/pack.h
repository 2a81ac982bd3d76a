// SPDX-License-Identifier: Apache-2.0
//
// Vectors of unsigned integers in a message: element i of width b has the bits from i·b on, low bits first. A
// tile before packing has one byte per element, or two for 12 bits, because 32-bit stores would cost more
// than the step that narrows them. An unpacked tile has 32 bits per element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"
#include "core/ops/block.h"
#include "core/ops/cpu/packing/pack_bytes.h"
#include "core/ops/cpu/packing/pack_spanning.h"
#include "core/ops/cpu/packing/pack_trits.h"
#include "core/ops/cpu/prefetch.h"
#include "core/ops/tile.h"

namespace hipress::ops {

namespace detail {

template <IsaLevel level, unsigned width>
void packWidth(const uint8_t* __restrict codes, size_t count, uint8_t* __restrict field, size_t first) {
  constexpr size_t each = 8 / width;
  uint8_t* byte = field + first / each;
  const size_t before = first % each;  // elements that the first byte has already
  if (before != 0 && count != 0) {
    uint32_t value = *byte & ((1u << (before * width)) - 1u);
    const size_t here = count < each - before ? count : each - before;
    for (size_t i = 0; i < here; ++i) value |= static_cast<uint32_t>(codes[i]) << ((before + i) * width);
    *byte++ = static_cast<uint8_t>(value);
    codes += here;
    count -= here;
  }
  const size_t whole = count / each;
  const size_t done = PackBytes<level>::template pack<width>(codes, whole, byte);
  packBytesPlain<width>(codes + done * each, whole - done, byte + done);
  if (count % each != 0) {
    uint32_t value = 0;
    for (size_t i = whole * each; i < count; ++i) {
      value |= static_cast<uint32_t>(codes[i]) << ((i % each) * width);
    }
    byte[whole] = static_cast<uint8_t>(value);
  }
}

template <IsaLevel level, unsigned width>
void unpackWidth(const uint8_t* __restrict field, size_t first, size_t count, int32_t* __restrict codes) {
  constexpr size_t each = 8 / width;
  constexpr uint32_t mask = (1u << width) - 1u;
  const uint8_t* byte = field + first / each;
  if constexpr (width < 8) {
    const size_t before = first % each;
    if (before != 0 && count != 0) {
      const size_t here = count < each - before ? count : each - before;
      for (size_t i = 0; i < here; ++i) {
        codes[i] = static_cast<int32_t>((static_cast<uint32_t>(*byte) >> ((before + i) * width)) & mask);
      }
      ++byte;
      codes += here;
      count -= here;
    }
  }
  const size_t whole = count / each;
  const size_t done = PackBytes<level>::template unpack<width>(byte, whole, codes);
  unpackBytesPlain<width>(byte + done, whole - done, codes + done * each);
  for (size_t i = whole * each; i < count; ++i) {
    codes[i] = static_cast<int32_t>((static_cast<uint32_t>(byte[whole]) >> ((i % each) * width)) & mask);
  }
}

#if HIPRESS_X86
HIPRESS_TARGET_V4 inline void narrowLanesV4(const int32_t* lanes, uint8_t* codes) {
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(codes),
                   _mm512_maskz_cvtepi32_epi8(0xffff, _mm512_loadu_si512(lanes)));
}
HIPRESS_TARGET_V4 inline void narrowLanesV4(const int32_t* lanes, uint16_t* codes) {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(codes),
                      _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_loadu_si512(lanes)));
}
#endif

}  // namespace detail

/// Narrows kLanes codes to one or two bytes each.
template <IsaLevel level, typename Code>
void narrowLanes(const int32_t* lanes, Code* codes) {
#if HIPRESS_X86
  if constexpr (level == IsaLevel::kV4) return detail::narrowLanesV4(lanes, codes);
#endif
  for (size_t lane = 0; lane < kLanes; ++lane) codes[lane] = static_cast<Code>(lanes[lane]);
}

/// Writes elements first … first + count − 1 of the vector that begins at `field`. Keeps the lower bits of
/// the first byte, clears unused bits of the last byte, and writes no other byte. Codes are below 2^width;
/// width is 1 to 8, or kTrits.
template <IsaLevel level>
void packTile(const uint8_t* codes, size_t count, unsigned width, uint8_t* field, size_t first) {
  prefetchMessage(field + packedBytes(first, width), packedBytes(count, width));
  switch (width) {
    case 1:
      return detail::packWidth<level, 1>(codes, count, field, first);
    case 2:
      return detail::packWidth<level, 2>(codes, count, field, first);
    case 4:
      return detail::packWidth<level, 4>(codes, count, field, first);
    case 8:
      if (count != 0) std::memcpy(field + first, codes, count);
      return;
    case kTrits:
      return packTrits(codes, count, field, first);
    default:
      return packSpanning(codes, count, width, field, first);
  }
}

/// Writes elements of 12 bits, as packTile() above does.
template <IsaLevel>
void packTile(const uint16_t* codes, size_t count, unsigned width, uint8_t* field, size_t first) {
  prefetchMessage(field + packedBytes(first, width), packedBytes(count, width));
  packSpanning(codes, count, width, field, first);
}

/// Writes `bytes` bytes of elements that a message holds as memory does.
inline void copyTile(const void* elements, size_t bytes, uint8_t* to) {
  prefetchMessage(to, bytes);
  if (bytes != 0) std::memcpy(to, elements, bytes);
}

/// Reads the elements that packTile() writes, and no other bytes.
template <IsaLevel level>
void unpackTile(const uint8_t* field, size_t first, size_t count, unsigned width, int32_t* codes) {
  switch (width) {
    case 1:
      return detail::unpackWidth<level, 1>(field, first, count, codes);
    case 2:
      return detail::unpackWidth<level, 2>(field, first, count, codes);
    case 4:
      return detail::unpackWidth<level, 4>(field, first, count, codes);
    case 8:
      return detail::unpackWidth<level, 8>(field, first, count, codes);
    case kTrits:
      return unpackTrits(field, first, count, codes);
    default:
      return unpackSpanning(field, first, count, width, codes);
  }
}

/// Whether the bits behind the last of `count` elements are 0, as a message must have them.
inline bool paddingIsZero(const uint8_t* field, size_t count, unsigned width) {
  const size_t used = count % 8 * width % 8;
  return used == 0 || (field[count / 8 * width + count % 8 * width / 8] >> used) == 0;
}

}  // namespace hipress::ops
