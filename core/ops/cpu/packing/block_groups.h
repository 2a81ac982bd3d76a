// SPDX-License-Identifier: Apache-2.0
//
// Packs and unpacks a group of codes of one width, 1 to 8 bits, for block_codes.h. Codes have a byte each.
// BlockGroup has, for the levels with kCodes != 0,
//   pack(codes, count, width, words)     1 to kCodes codes that fit into the width
//   unpack(words, count, width, codes)   and back; writes kCodes codes, and those behind `count` are
//   undefined
// Both touch no word without a bit of these codes. Eight codes are a lane of 64 bits: three steps move
// neighbours together, first bytes, then pairs, then fours. Then bytes without bits go. The width is a
// variable, and no branch depends on it: a processor would have to predict the width of each block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops::detail {

template <IsaLevel level>
struct BlockGroup {
  static constexpr size_t kCodes = 0;
};

#if HIPRESS_X86

/// Where the bytes of a group come from. 0x80 gives a zero.
struct GroupBytes {
  alignas(64) uint16_t packWords[32], unpackWords[32];  ///< Of 64 codes: words between parts of 128 bits.
  alignas(32) uint8_t packLow[32], packHigh[32];        ///< Of 32 codes: bytes of the lower and upper half.
  uint8_t unpackLow[32], unpackHigh[32];
  alignas(16) uint8_t pack[16], unpack[16];  ///< Of 64 codes: bytes within a part of 128 bits.
  uint64_t code;                             ///< The greatest code, eight times.
  uint64_t bytes, pairs, fours;              ///< The bits of the first of two bytes, pairs, fours.
};

constexpr GroupBytes groupBytes(unsigned width) {
  GroupBytes to{};
  for (unsigned i = 0; i < 32; ++i) {
    const unsigned part = i / width, rest = i % width;
    to.packWords[i] = static_cast<uint16_t>(part < 4 ? 8 * part + rest : 0);
    to.unpackWords[i] = static_cast<uint16_t>(i % 8 < width ? i / 8 * width + i % 8 : 0);
    to.packLow[i] = static_cast<uint8_t>(part < 2 ? 8 * part + rest : 0x80);
    to.packHigh[i] = static_cast<uint8_t>(part == 2 || part == 3 ? 8 * (part - 2) + rest : 0x80);
    const unsigned from = i % 8 < width ? i / 8 * width + i % 8 : 0x80;
    to.unpackLow[i] = static_cast<uint8_t>(from < 16 ? from : 0x80);
    to.unpackHigh[i] = static_cast<uint8_t>(from >= 16 && from < 32 ? from - 16 : 0x80);
    if (i < 16) {
      to.pack[i] = to.packLow[i];
      to.unpack[i] = static_cast<uint8_t>(from);
    }
  }
  to.code = 0x0101010101010101u * ((uint64_t{1} << width) - 1);
  to.bytes = 0x0001000100010001u * ((uint64_t{1} << width) - 1);
  to.pairs = 0x0000000100000001u * ((uint64_t{1} << (2 * width)) - 1);
  to.fours = (uint64_t{1} << (4 * width)) - 1;
  return to;
}

/// By width. A width of 0 has no group.
inline constexpr std::array<GroupBytes, 9> kGroupBytes = {{{},
                                                           groupBytes(1),
                                                           groupBytes(2),
                                                           groupBytes(3),
                                                           groupBytes(4),
                                                           groupBytes(5),
                                                           groupBytes(6),
                                                           groupBytes(7),
                                                           groupBytes(8)}};

template <>
struct BlockGroup<IsaLevel::kV3> {
  static constexpr size_t kCodes = 32;

  HIPRESS_TARGET_V3 static void pack(const uint8_t* codes, size_t count, unsigned width, int32_t* words) {
    const GroupBytes& bytes = kGroupBytes[width];
    __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(codes));
    all = _mm256_min_epu8(all, _mm256_set1_epi64x(static_cast<int64_t>(bytes.code)));
    all = together(all, _mm256_set1_epi64x(0x00ff00ff00ff00ff), 8 - width);
    all = together(all, _mm256_set1_epi64x(0x0000ffff0000ffff), 16 - 2 * width);
    all = together(all, _mm256_set1_epi64x(0x00000000ffffffff), 32 - 4 * width);
    all = chosen(all, bytes.packLow, bytes.packHigh);
    _mm256_maskstore_epi32(words, firstWords((count * width + 31) / 32), all);
  }

  HIPRESS_TARGET_V3 static void unpack(const int32_t* words, size_t count, unsigned width, uint8_t* codes) {
    const GroupBytes& bytes = kGroupBytes[width];
    __m256i all = _mm256_maskload_epi32(words, firstWords((count * width + 31) / 32));
    all = chosen(all, bytes.unpackLow, bytes.unpackHigh);
    all = apart(all, bytes.fours, 32, 4 * width);
    all = apart(all, bytes.pairs, 16, 2 * width);
    all = apart(all, bytes.bytes, 8, width);
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(codes), all);
  }

 private:
  HIPRESS_TARGET_V3 static __m256i firstWords(size_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  HIPRESS_TARGET_V3 static __m256i together(__m256i all, __m256i first, unsigned shift) {
    const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(shift));
    return _mm256_or_si256(_mm256_and_si256(all, first),
                           _mm256_srl_epi64(_mm256_andnot_si256(first, all), bits));
  }
  HIPRESS_TARGET_V3 static __m256i apart(__m256i all, uint64_t mask, unsigned room, unsigned used) {
    const __m256i first = _mm256_set1_epi64x(static_cast<int64_t>(mask));
    const __m256i second = _mm256_slli_epi64(first, static_cast<int>(room));
    const __m256i moved = _mm256_sll_epi64(all, _mm_cvtsi32_si128(static_cast<int>(room - used)));
    return _mm256_or_si256(_mm256_and_si256(all, first), _mm256_and_si256(moved, second));
  }
  /// The bytes of both halves, each at any place.
  HIPRESS_TARGET_V3 static __m256i chosen(__m256i all, const uint8_t* low, const uint8_t* high) {
    const __m256i fromLow = _mm256_load_si256(reinterpret_cast<const __m256i*>(low));
    const __m256i fromHigh = _mm256_load_si256(reinterpret_cast<const __m256i*>(high));
    return _mm256_or_si256(_mm256_shuffle_epi8(_mm256_permute4x64_epi64(all, 0x44), fromLow),
                           _mm256_shuffle_epi8(_mm256_permute4x64_epi64(all, 0xee), fromHigh));
  }
};

template <>
struct BlockGroup<IsaLevel::kV4> {
  // maskz forms with a full mask: for plain forms, GCC 12 warns of an undefined operand in its own header.
  static constexpr size_t kCodes = 64;

  HIPRESS_TARGET_V4 static void pack(const uint8_t* codes, size_t count, unsigned width, int32_t* words) {
    const GroupBytes& bytes = kGroupBytes[width];
    __m512i all = _mm512_loadu_si512(codes);
    all = _mm512_maskz_min_epu8(~uint64_t{0}, all, _mm512_set1_epi64(static_cast<int64_t>(bytes.code)));
    all = together(all, _mm512_set1_epi64(0x00ff00ff00ff00ff), 8 - width);
    all = together(all, _mm512_set1_epi64(0x0000ffff0000ffff), 16 - 2 * width);
    all = together(all, _mm512_set1_epi64(0x00000000ffffffff), 32 - 4 * width);
    all = _mm512_shuffle_epi8(all, inEachPart(bytes.pack));
    all = _mm512_maskz_permutexvar_epi16(~0u, _mm512_load_si512(bytes.packWords), all);
    _mm512_mask_storeu_epi32(words, firstWords((count * width + 31) / 32), all);
  }

  HIPRESS_TARGET_V4 static void unpack(const int32_t* words, size_t count, unsigned width, uint8_t* codes) {
    const GroupBytes& bytes = kGroupBytes[width];
    __m512i all = _mm512_maskz_loadu_epi32(firstWords((count * width + 31) / 32), words);
    all = _mm512_maskz_permutexvar_epi16(~0u, _mm512_load_si512(bytes.unpackWords), all);
    all = _mm512_shuffle_epi8(all, inEachPart(bytes.unpack));
    all = apart(all, bytes.fours, 32, 4 * width);
    all = apart(all, bytes.pairs, 16, 2 * width);
    all = apart(all, bytes.bytes, 8, width);
    _mm512_storeu_si512(codes, all);
  }

 private:
  HIPRESS_TARGET_V4 static __mmask16 firstWords(size_t count) {
    return static_cast<__mmask16>((1u << count) - 1u);
  }
  HIPRESS_TARGET_V4 static __m512i inEachPart(const uint8_t* bytes) {
    return _mm512_maskz_broadcast_i32x4(0xffff, _mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }
  HIPRESS_TARGET_V4 static __m512i together(__m512i all, __m512i first, unsigned shift) {
    const __m128i bits = _mm_cvtsi32_si128(static_cast<int>(shift));
    const __m512i second = _mm512_maskz_andnot_epi64(0xff, first, all);
    return _mm512_or_si512(_mm512_and_si512(all, first), _mm512_maskz_srl_epi64(0xff, second, bits));
  }
  HIPRESS_TARGET_V4 static __m512i apart(__m512i all, uint64_t mask, unsigned room, unsigned used) {
    const __m512i first = _mm512_set1_epi64(static_cast<int64_t>(mask));
    const __m512i second = _mm512_maskz_sll_epi64(0xff, first, _mm_cvtsi32_si128(static_cast<int>(room)));
    const __m512i moved = _mm512_maskz_sll_epi64(0xff, all, _mm_cvtsi32_si128(static_cast<int>(room - used)));
    return _mm512_or_si512(_mm512_and_si512(all, first), _mm512_and_si512(moved, second));
  }
};

#endif

}  // namespace hipress::ops::detail
