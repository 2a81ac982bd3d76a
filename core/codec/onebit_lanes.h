// SPDX-License-Identifier: Apache-2.0
//
// The innermost step of onebit's encoding: sixteen values to sixteen sign bits and sixteen running sums of
// each sign. Written once in GCC's vectors, and by hand for the two x86 levels, where the generic code is
// three times slower. All add the same doubles to the same lanes in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::onebit {

inline constexpr size_t kLanes = 16;  ///< Part of the result, so the same everywhere.

/// Every version has
///   add<hasResidual>(input, residual, scale)   the sign bits of scale·input + residual, sixteen values; sums
///   them store(negative, nonNegative)               the sums, one per lane
template <IsaLevel level>
class LaneSums {
 public:
  template <bool hasResidual>
  uint32_t add(const float* input, const float* residual, float scale) {
    uint32_t bits = 0;
    for (size_t part = 0; part < kParts; ++part) {
      Floats values;
      std::memcpy(&values, input + part * kWidth, sizeof(values));
      values *= scale;
      if constexpr (hasResidual) {
        Floats held;
        std::memcpy(&held, residual + part * kWidth, sizeof(held));
        values += held;
      }
      const Masks mask = values >= 0;
      const Masks pattern = reinterpret_cast<Masks>(values);
      const Floats kept = reinterpret_cast<Floats>(pattern & mask);
      const Floats rest =
          reinterpret_cast<Floats>(pattern & ~mask);  // NaN compares false: it poisons this sum
      for (size_t half = 0; half < 2; ++half) {
        nonNegative_[2 * part + half] += Doubles{kept[2 * half], kept[2 * half + 1]};
        negative_[2 * part + half] += Doubles{rest[2 * half], rest[2 * half + 1]};
      }
      Masks set = mask & (Masks{1, 2, 4, 8} << static_cast<int32_t>(part * kWidth));
      set |= __builtin_shuffle(set, Masks{2, 3, 0, 1});
      set |= __builtin_shuffle(set, Masks{1, 0, 3, 2});
      bits |= static_cast<uint32_t>(set[0]);
    }
    return bits;
  }

  void store(double* negative, double* nonNegative) const {
    std::memcpy(negative, negative_, sizeof(negative_));
    std::memcpy(nonNegative, nonNegative_, sizeof(nonNegative_));
  }

 private:
  static constexpr size_t kWidth = 4;
  static constexpr size_t kParts = kLanes / kWidth;
  typedef float Floats __attribute__((vector_size(16)));
  typedef int32_t Masks __attribute__((vector_size(16)));
  typedef double Doubles __attribute__((vector_size(16)));

  Doubles negative_[kLanes / 2] = {};
  Doubles nonNegative_[kLanes / 2] = {};
};

#if HIPRESS_X86

template <>
class LaneSums<IsaLevel::kV3> {
 public:
  template <bool hasResidual>
  HIPRESS_TARGET_V3 uint32_t add(const float* input, const float* residual, float scale) {
    const uint32_t low = addEight<hasResidual>(input, residual, scale, 0);
    const uint32_t high = addEight<hasResidual>(input + 8, residual + 8, scale, 2);
    return low | (high << 8);
  }

  HIPRESS_TARGET_V3 void store(double* negative, double* nonNegative) const {
    for (size_t i = 0; i < 4; ++i) {
      _mm256_storeu_pd(negative + 4 * i, negative_[i]);
      _mm256_storeu_pd(nonNegative + 4 * i, nonNegative_[i]);
    }
  }

 private:
  template <bool hasResidual>
  HIPRESS_TARGET_V3 uint32_t addEight(const float* input, const float* residual, float scale, size_t at) {
    __m256 values = _mm256_mul_ps(_mm256_loadu_ps(input), _mm256_set1_ps(scale));
    if constexpr (hasResidual) values = _mm256_add_ps(values, _mm256_loadu_ps(residual));
    const __m256 mask = _mm256_cmp_ps(values, _mm256_setzero_ps(), _CMP_GE_OQ);
    const __m256 kept = _mm256_and_ps(mask, values);
    const __m256 rest = _mm256_andnot_ps(mask, values);
    nonNegative_[at] = addHalf(nonNegative_[at], _mm256_castps256_ps128(kept));
    nonNegative_[at + 1] = addHalf(nonNegative_[at + 1], _mm256_extractf128_ps(kept, 1));
    negative_[at] = addHalf(negative_[at], _mm256_castps256_ps128(rest));
    negative_[at + 1] = addHalf(negative_[at + 1], _mm256_extractf128_ps(rest, 1));
    return static_cast<uint32_t>(_mm256_movemask_ps(mask));
  }

  HIPRESS_TARGET_V3 static __m256d addHalf(__m256d sum, __m128 values) {
    return _mm256_add_pd(sum, _mm256_cvtps_pd(values));
  }

  __m256d negative_[4] = {};
  __m256d nonNegative_[4] = {};
};

template <>
class LaneSums<IsaLevel::kV4> {
 public:
  template <bool hasResidual>
  HIPRESS_TARGET_V4 uint32_t add(const float* input, const float* residual, float scale) {
    __m512 values = _mm512_mul_ps(_mm512_loadu_ps(input), _mm512_set1_ps(scale));
    if constexpr (hasResidual) values = _mm512_add_ps(values, _mm512_loadu_ps(residual));
    const uint32_t mask = _mm512_cmp_ps_mask(values, _mm512_setzero_ps(), _CMP_GE_OQ);
    const auto high = static_cast<__mmask8>(mask >> 8);
    const auto low = static_cast<__mmask8>(mask);
    // The maskz forms with a full mask: GCC 12 warns of its own header's undefined operand in the plain ones.
    const __m512d first = _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, values, 0));
    const __m512d second = _mm512_maskz_cvtps_pd(0xff, _mm512_maskz_extractf32x8_ps(0xff, values, 1));
    nonNegative_[0] = _mm512_mask_add_pd(nonNegative_[0], low, nonNegative_[0], first);
    nonNegative_[1] = _mm512_mask_add_pd(nonNegative_[1], high, nonNegative_[1], second);
    negative_[0] = _mm512_mask_add_pd(negative_[0], _knot_mask8(low), negative_[0], first);
    negative_[1] = _mm512_mask_add_pd(negative_[1], _knot_mask8(high), negative_[1], second);
    return mask;
  }

  HIPRESS_TARGET_V4 void store(double* negative, double* nonNegative) const {
    for (size_t i = 0; i < 2; ++i) {
      _mm512_storeu_pd(negative + 8 * i, negative_[i]);
      _mm512_storeu_pd(nonNegative + 8 * i, nonNegative_[i]);
    }
  }

 private:
  __m512d negative_[2] = {};
  __m512d nonNegative_[2] = {};
};

#endif

}  // namespace hipress::onebit
