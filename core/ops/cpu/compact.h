// SPDX-License-Identifier: Apache-2.0
//
// Filters of one tile. Codecs with filters keep few elements, so the loops are fast for groups without any.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops {

namespace detail {

/// The value to write for element i of a tile: first + i, or values[i].
struct IndexSource {
  int32_t first;
  int32_t operator()(size_t i) const { return first + static_cast<int32_t>(i); }
};
template <typename T>
struct ValueSource {
  const T* values;
  T operator()(size_t i) const { return values[i]; }
};

/// Handles the first elements that fill whole groups, and returns their number. Adds to `kept`.
template <IsaLevel level>
struct CompactGroups {
  template <typename Source, typename T>
  static size_t run(const int32_t* __restrict keep, size_t count, Source source, T* __restrict out,
                    size_t& kept) {
    constexpr size_t step = 32;
    size_t i = 0;
    for (; i + step <= count; i += step) {
      int32_t any = 0;
      for (size_t j = 0; j < step; ++j) any |= keep[i + j];
      if (any == 0) continue;
      for (size_t j = i; j < i + step; ++j) {
        out[kept] = source(j);
        kept += keep[j] != 0 ? 1 : 0;
      }
    }
    return i;
  }
};

#if HIPRESS_X86

/// Byte j of entry m: the place of the j-th set bit of m.
inline constexpr auto kPlacesOfSetBits = [] {
  std::array<uint64_t, 256> places{};
  for (size_t mask = 0; mask < 256; ++mask) {
    unsigned found = 0;
    for (uint64_t bit = 0; bit < 8; ++bit) {
      if ((mask >> bit & 1) != 0) places[mask] |= bit << (8 * found++);
    }
  }
  return places;
}();

template <>
struct CompactGroups<IsaLevel::kV3> {
  template <typename Source, typename T>
  HIPRESS_TARGET_V3 static size_t run(const int32_t* keep, size_t count, Source source, T* out,
                                      size_t& kept) {
    constexpr size_t step = 32;
    size_t i = 0;
    for (; i + step <= count; i += step) {
      const auto* in = reinterpret_cast<const __m256i_u*>(keep + i);
      const __m256i low = _mm256_or_si256(_mm256_loadu_si256(in), _mm256_loadu_si256(in + 1));
      const __m256i high = _mm256_or_si256(_mm256_loadu_si256(in + 2), _mm256_loadu_si256(in + 3));
      const __m256i any = _mm256_or_si256(low, high);
      if (_mm256_testz_si256(any, any) != 0) continue;
      for (size_t part = 0; part < 4; ++part) {
        const __m256i dropped = _mm256_cmpeq_epi32(_mm256_loadu_si256(in + part), _mm256_setzero_si256());
        const auto mask = static_cast<uint8_t>(~_mm256_movemask_ps(_mm256_castsi256_ps(dropped)));
        eight(mask, source, i + 8 * part, out + kept);
        kept += static_cast<size_t>(std::popcount(mask));
      }
    }
    return i;
  }

 private:
  HIPRESS_TARGET_V3 static __m256i places(uint8_t mask) {
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kPlacesOfSetBits[mask])));
  }
  HIPRESS_TARGET_V3 static void eight(uint8_t mask, IndexSource source, size_t i, int32_t* out) {
    const __m256i indices = _mm256_add_epi32(_mm256_set1_epi32(source(i)), places(mask));
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(out), indices);
  }
  template <typename T>
  HIPRESS_TARGET_V3 static void eight(uint8_t mask, ValueSource<T> source, size_t i, T* out) {
    const T* values = source.values + i;
    if constexpr (sizeof(T) == 4) {
      const __m256i all = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(values));
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(out), _mm256_permutevar8x32_epi32(all, places(mask)));
    } else {
      for (unsigned left = mask; left != 0; left &= left - 1) *out++ = values[std::countr_zero(left)];
    }
  }
};

template <>
struct CompactGroups<IsaLevel::kV4> {
  template <typename Source, typename T>
  HIPRESS_TARGET_V4 static size_t run(const int32_t* keep, size_t count, Source source, T* out,
                                      size_t& kept) {
    constexpr size_t step = 64;
    size_t i = 0;
    for (; i + step <= count; i += step) {
      const __m512i a = _mm512_loadu_si512(keep + i);
      const __m512i b = _mm512_loadu_si512(keep + i + 16);
      const __m512i c = _mm512_loadu_si512(keep + i + 32);
      const __m512i d = _mm512_loadu_si512(keep + i + 48);
      const __m512i any = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
      if (_mm512_test_epi32_mask(any, any) == 0) continue;
      kept += sixteen(_mm512_test_epi32_mask(a, a), source, i, out + kept);
      kept += sixteen(_mm512_test_epi32_mask(b, b), source, i + 16, out + kept);
      kept += sixteen(_mm512_test_epi32_mask(c, c), source, i + 32, out + kept);
      kept += sixteen(_mm512_test_epi32_mask(d, d), source, i + 48, out + kept);
    }
    return i;
  }

 private:
  // Compresses in a register and stores all of it, because a compressing store is slow on some processors.
  HIPRESS_TARGET_V4 static size_t sixteen(__mmask16 mask, IndexSource source, size_t i, int32_t* out) {
    const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i indices = _mm512_add_epi32(_mm512_set1_epi32(source(i)), steps);
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(mask, indices));
    return static_cast<size_t>(std::popcount(mask));
  }
  template <typename T>
  HIPRESS_TARGET_V4 static size_t sixteen(__mmask16 mask, ValueSource<T> source, size_t i, T* out) {
    const T* values = source.values + i;
    if constexpr (sizeof(T) == 4) {
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi32(mask, _mm512_loadu_si512(values)));
    } else {
      static_assert(sizeof(T) == 8);
      const auto low = static_cast<__mmask8>(mask);
      _mm512_storeu_si512(out, _mm512_maskz_compress_epi64(low, _mm512_loadu_si512(values)));
      _mm512_storeu_si512(
          out + std::popcount(low),
          _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask >> 8), _mm512_loadu_si512(values + 8)));
    }
    return static_cast<size_t>(std::popcount(mask));
  }
};

#endif

template <IsaLevel level, typename Source, typename T>
size_t compact(const int32_t* keep, size_t count, Source source, T* out) {
  size_t kept = 0;
  for (size_t i = CompactGroups<level>::run(keep, count, source, out, kept); i < count; ++i) {
    out[kept] = source(i);
    kept += keep[i] != 0 ? 1 : 0;
  }
  return kept;
}

}  // namespace detail

/// Writes first + i for each i with keep[i] != 0, in order, and returns their number. `out` needs room for
/// count + 16 elements. Elements behind the result are overwritten.
template <IsaLevel level>
size_t compactIndices(const int32_t* keep, size_t count, int32_t first, int32_t* out) {
  return detail::compact<level>(keep, count, detail::IndexSource{first}, out);
}

/// Like compactIndices(), but writes values[i]. T has four or eight bytes.
template <IsaLevel level, typename T>
size_t compactValues(const int32_t* keep, const T* values, size_t count, T* out) {
  return detail::compact<level>(keep, count, detail::ValueSource<T>{values}, out);
}

}  // namespace hipress::ops
