// SPDX-License-Identifier: Apache-2.0
//
// Packs and unpacks whole bytes of a message. Codes before packing have a byte each, and unpacked codes 32
// bits. PackBytes has, for every level,
//   pack<width>(codes, bytes, field)     bytes · 8 / width codes to bytes
//   unpack<width>(field, bytes, codes)   and back
// Both handle as many bytes as fill registers, and return their number. Width 8 is a copy and not here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops::detail {

template <unsigned width>
void packBytesPlain(const uint8_t* __restrict codes, size_t bytes, uint8_t* __restrict field) {
  constexpr size_t each = 8 / width;
  for (size_t byte = 0; byte < bytes; ++byte) {
    uint32_t value = 0;
    for (size_t i = 0; i < each; ++i) value |= static_cast<uint32_t>(codes[byte * each + i]) << (i * width);
    field[byte] = static_cast<uint8_t>(value);
  }
}

template <unsigned width>
void unpackBytesPlain(const uint8_t* __restrict field, size_t bytes, int32_t* __restrict codes) {
  constexpr size_t each = 8 / width;
  constexpr uint32_t mask = (1u << width) - 1u;
  for (size_t byte = 0; byte < bytes; ++byte) {
    for (size_t i = 0; i < each; ++i) {
      codes[byte * each + i] =
          static_cast<int32_t>((static_cast<uint32_t>(field[byte]) >> (i * width)) & mask);
    }
  }
}

template <IsaLevel level>
struct PackBytes {
  template <unsigned width>
  static size_t pack(const uint8_t*, size_t, uint8_t*) {
    return 0;
  }
  template <unsigned width>
  static size_t unpack(const uint8_t*, size_t, int32_t*) {
    return 0;
  }
};

#if HIPRESS_X86

template <>
struct PackBytes<IsaLevel::kV3> {
  /// 32 codes at a time.
  template <unsigned width>
  HIPRESS_TARGET_V3 static size_t pack(const uint8_t* codes, size_t bytes, uint8_t* field) {
    constexpr size_t step = 4 * width;
    size_t done = 0;
    for (; done + step <= bytes; done += step, codes += 32) {
      const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(codes));
      if constexpr (width == 1) {
        const int32_t bits = _mm256_movemask_epi8(_mm256_slli_epi16(all, 7));
        std::memcpy(field + done, &bits, sizeof(bits));
      } else if constexpr (width == 2) {
        const __m256i pairs = _mm256_maddubs_epi16(all, _mm256_set1_epi16(0x0401));
        const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
        const __m128i words =
            _mm_packus_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
        _mm_storel_epi64(reinterpret_cast<__m128i_u*>(field + done), _mm_packus_epi16(words, words));
      } else {
        const __m256i pairs = _mm256_maddubs_epi16(all, _mm256_set1_epi16(0x1001));
        const __m128i packed =
            _mm_packus_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        _mm_storeu_si128(reinterpret_cast<__m128i_u*>(field + done), packed);
      }
    }
    return done;
  }

  /// Eight codes at a time.
  template <unsigned width>
  HIPRESS_TARGET_V3 static size_t unpack(const uint8_t* field, size_t bytes, int32_t* codes) {
    constexpr int w = width;
    const __m256i shifts = _mm256_setr_epi32(0, w, 2 * w, 3 * w, 4 * w, 5 * w, 6 * w, 7 * w);
    const __m256i mask = _mm256_set1_epi32((1 << w) - 1);
    size_t done = 0;
    for (; done + width <= bytes; done += width, codes += 8) {
      __m256i values;
      if constexpr (width == 8) {
        values = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(field + done)));
      } else {
        int32_t word = 0;
        std::memcpy(&word, field + done, width);
        values = _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32(word), shifts), mask);
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(codes), values);
    }
    return done;
  }
};

template <>
struct PackBytes<IsaLevel::kV4> {
  // maskz forms with a full mask: for plain forms, GCC 12 warns of an undefined operand in its own header.

  /// 64 codes at a time.
  template <unsigned width>
  HIPRESS_TARGET_V4 static size_t pack(const uint8_t* codes, size_t bytes, uint8_t* field) {
    constexpr size_t step = 8 * width;
    size_t done = 0;
    for (; done + step <= bytes; done += step, codes += 64) {
      const __m512i all = _mm512_loadu_si512(codes);
      if constexpr (width == 1) {
        const __mmask64 bits = _mm512_test_epi8_mask(all, all);
        std::memcpy(field + done, &bits, sizeof(bits));
      } else if constexpr (width == 2) {
        const __m512i pairs = _mm512_maddubs_epi16(all, _mm512_set1_epi16(0x0401));
        const __m512i fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00100001));
        _mm_storeu_si128(reinterpret_cast<__m128i_u*>(field + done),
                         _mm512_maskz_cvtepi32_epi8(0xffff, fours));
      } else {
        const __m512i pairs = _mm512_maddubs_epi16(all, _mm512_set1_epi16(0x1001));
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(field + done),
                            _mm512_maskz_cvtepi16_epi8(~0u, pairs));
      }
    }
    return done;
  }

  /// 16 codes at a time.
  template <unsigned width>
  HIPRESS_TARGET_V4 static size_t unpack(const uint8_t* field, size_t bytes, int32_t* codes) {
    constexpr size_t step = 2 * width;
    size_t done = 0;
    for (; done + step <= bytes; done += step, codes += 16) {
      const uint8_t* in = field + done;
      __m512i values;
      if constexpr (width == 8) {
        values = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i_u*>(in)));
      } else if constexpr (width == 4) {
        const __m512i pairs =
            _mm512_maskz_cvtepu8_epi64(0xff, _mm_loadl_epi64(reinterpret_cast<const __m128i_u*>(in)));
        const __m512i both = _mm512_or_si512(pairs, _mm512_maskz_slli_epi64(0xff, pairs, 28));
        values = _mm512_and_si512(both, _mm512_set1_epi32(15));
      } else if constexpr (width == 2) {
        int32_t word = 0;
        std::memcpy(&word, in, sizeof(word));
        const __m512i shifts = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        values = _mm512_and_si512(_mm512_maskz_srlv_epi32(0xffff, _mm512_set1_epi32(word), shifts),
                                  _mm512_set1_epi32(3));
      } else {
        uint16_t bits = 0;
        std::memcpy(&bits, in, sizeof(bits));
        values = _mm512_maskz_set1_epi32(bits, 1);
      }
      _mm512_storeu_si512(codes, values);
    }
    return done;
  }
};

#endif

}  // namespace hipress::ops::detail
