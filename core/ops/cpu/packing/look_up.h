// SPDX-License-Identifier: Apache-2.0
//
// Codes to values: elements of a table at many places. A table of up to 128 elements fits into eight
// registers of 512 bits, which instructions search faster than a gather reads memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops {

namespace detail {

/// A table's `padded` elements, 32 or 64 or 128; `places` and `out` have room for count rounded up to 16.
template <IsaLevel level>
struct LookUps {
  template <size_t padded, typename T>
  static void run(const T* table, const int32_t* places, size_t count, T* out) {
    for (size_t i = 0; i < count; ++i) {
      const auto at = std::min(static_cast<uint32_t>(places[i]), static_cast<uint32_t>(padded));
      out[i] = table[at];
    }
  }
};

#if HIPRESS_X86
template <>
struct LookUps<IsaLevel::kV4> {
  template <size_t padded, typename T>
  HIPRESS_TARGET_V4 static void run(const T* table, const int32_t* places, size_t count, T* out) {
    __m512i parts[padded / 16];
    for (size_t i = 0; i < padded / 16; ++i) parts[i] = _mm512_loadu_si512(table + 16 * i);
    for (size_t i = 0; i < count; i += 16) {
      const __m512i at = _mm512_loadu_si512(places + i);
      const __mmask16 inside = _mm512_cmplt_epu32_mask(at, _mm512_set1_epi32(padded));
      _mm512_storeu_si512(out + i, _mm512_maskz_mov_epi32(inside, chosen<padded>(parts, at)));
    }
  }

 private:
  /// By the low bits of the places a permutation chooses from two registers, and by each other bit a blend.
  template <size_t of>
  HIPRESS_TARGET_V4 static __m512i chosen(const __m512i* parts, __m512i at) {
    if constexpr (of == 32) {
      return _mm512_permutex2var_epi32(parts[0], at, parts[1]);
    } else {
      const __mmask16 upper = _mm512_test_epi32_mask(at, _mm512_set1_epi32(of / 2));
      return _mm512_mask_blend_epi32(upper, chosen<of / 2>(parts, at), chosen<of / 2>(parts + of / 32, at));
    }
  }
};
#endif

}  // namespace detail

/// A copy of a table of `elements` floats or integers of 32 bits.
template <IsaLevel level, typename T, size_t elements>
class LookUp {
  static_assert(elements <= 128 && sizeof(T) == 4);

 public:
  /// at(i) is element i, and 0 behind the last one.
  template <typename At>
  explicit LookUp(const At& at) {
    for (size_t i = 0; i <= kPadded; ++i) table_[i] = at(static_cast<int32_t>(i));
  }

  /// The elements at places of any value: 0 where the table has none. Both arrays have room for `count`
  /// rounded up to a multiple of 16.
  void operator()(const int32_t* places, size_t count, T* out) const {
    detail::LookUps<level>::template run<kPadded>(table_, places, count, out);
  }

 private:
  static constexpr size_t kPadded = elements <= 32 ? 32 : elements <= 64 ? 64 : 128;

  alignas(64) T table_[kPadded + 1];
};

}  // namespace hipress::ops
