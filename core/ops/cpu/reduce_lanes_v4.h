// SPDX-License-Identifier: Apache-2.0
//
// reduce_lanes.h with AVX-512: sixteen lanes are one register of floats or integers, and two of doubles.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/element/multiversion.h"

namespace hipress::ops {

struct Sum;
struct Least;

namespace detail {

// maskz forms with a full mask: for plain forms, GCC 12 warns of an undefined operand in its own header. min
// and max of x86 are `a < b ? a : b` and `a > b ? a : b`: the language's with exchanged operands.

template <typename Combine>
HIPRESS_TARGET_V4 inline __m512 combineV4(__m512 a, __m512 b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm512_add_ps(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm512_maskz_min_ps(0xffff, b, a);
  return _mm512_maskz_max_ps(0xffff, b, a);
}
template <typename Combine>
HIPRESS_TARGET_V4 inline __m512d combineV4(__m512d a, __m512d b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm512_add_pd(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm512_maskz_min_pd(0xff, b, a);
  return _mm512_maskz_max_pd(0xff, b, a);
}
template <typename Combine>
HIPRESS_TARGET_V4 inline __m512i combineV4(__m512i a, __m512i b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm512_add_epi32(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm512_maskz_min_epi32(0xffff, b, a);
  return _mm512_maskz_max_epi32(0xffff, b, a);
}

HIPRESS_TARGET_V4 inline __m512d eightDoublesV4(const float* values) {
  return _mm512_maskz_cvtps_pd(0xff, _mm256_loadu_ps(values));
}
HIPRESS_TARGET_V4 inline __m512d eightDoublesV4(const int32_t* values) {
  return _mm512_maskz_cvtepi32_pd(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(values)));
}
HIPRESS_TARGET_V4 inline __m512d eightDoublesV4(const double* values) {
  return _mm512_loadu_pd(values);
}
HIPRESS_TARGET_V4 inline __m512 sixteenFloatsV4(const float* values) {
  return _mm512_loadu_ps(values);
}
HIPRESS_TARGET_V4 inline __m512 sixteenFloatsV4(const int32_t* values) {
  return _mm512_maskz_cvtepi32_ps(0xffff, _mm512_loadu_si512(values));
}

template <typename Combine, typename Element>
HIPRESS_TARGET_V4 inline void combineLanesV4(double* lanes, const Element* values, size_t groups) {
  __m512d low = _mm512_loadu_pd(lanes);
  __m512d high = _mm512_loadu_pd(lanes + 8);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    low = combineV4<Combine>(low, eightDoublesV4(values));
    high = combineV4<Combine>(high, eightDoublesV4(values + 8));
  }
  _mm512_storeu_pd(lanes, low);
  _mm512_storeu_pd(lanes + 8, high);
}

template <typename Combine, typename Element>
HIPRESS_TARGET_V4 inline void combineLanesV4(float* lanes, const Element* values, size_t groups) {
  __m512 sums = _mm512_loadu_ps(lanes);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    sums = combineV4<Combine>(sums, sixteenFloatsV4(values));
  }
  _mm512_storeu_ps(lanes, sums);
}

template <typename Combine>
HIPRESS_TARGET_V4 inline void combineLanesV4(int32_t* lanes, const int32_t* values, size_t groups) {
  __m512i sums = _mm512_loadu_si512(lanes);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    sums = combineV4<Combine>(sums, _mm512_loadu_si512(values));
  }
  _mm512_storeu_si512(lanes, sums);
}

}  // namespace detail
}  // namespace hipress::ops
