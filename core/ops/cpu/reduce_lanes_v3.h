// SPDX-License-Identifier: Apache-2.0
//
// reduce_lanes.h with AVX2: sixteen lanes are two registers of floats or integers, and four of doubles.
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

// min and max of x86 are `a < b ? a : b` and `a > b ? a : b`: the language's with exchanged operands.

template <typename Combine>
HIPRESS_TARGET_V3 inline __m256 combineV3(__m256 a, __m256 b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm256_add_ps(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm256_min_ps(b, a);
  return _mm256_max_ps(b, a);
}
template <typename Combine>
HIPRESS_TARGET_V3 inline __m256d combineV3(__m256d a, __m256d b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm256_add_pd(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm256_min_pd(b, a);
  return _mm256_max_pd(b, a);
}
template <typename Combine>
HIPRESS_TARGET_V3 inline __m256i combineV3(__m256i a, __m256i b) {
  if constexpr (std::is_same_v<Combine, Sum>) return _mm256_add_epi32(a, b);
  if constexpr (std::is_same_v<Combine, Least>) return _mm256_min_epi32(b, a);
  return _mm256_max_epi32(b, a);
}

HIPRESS_TARGET_V3 inline __m256d fourDoublesV3(const float* values) {
  return _mm256_cvtps_pd(_mm_loadu_ps(values));
}
HIPRESS_TARGET_V3 inline __m256d fourDoublesV3(const int32_t* values) {
  return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(values)));
}
HIPRESS_TARGET_V3 inline __m256d fourDoublesV3(const double* values) {
  return _mm256_loadu_pd(values);
}
HIPRESS_TARGET_V3 inline __m256i eightIntsV3(const int32_t* values) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(values));
}
HIPRESS_TARGET_V3 inline __m256 eightFloatsV3(const float* values) {
  return _mm256_loadu_ps(values);
}
HIPRESS_TARGET_V3 inline __m256 eightFloatsV3(const int32_t* values) {
  return _mm256_cvtepi32_ps(eightIntsV3(values));
}

template <typename Combine, typename Element>
HIPRESS_TARGET_V3 inline void combineLanesV3(double* lanes, const Element* values, size_t groups) {
  __m256d a = _mm256_loadu_pd(lanes);
  __m256d b = _mm256_loadu_pd(lanes + 4);
  __m256d c = _mm256_loadu_pd(lanes + 8);
  __m256d d = _mm256_loadu_pd(lanes + 12);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    a = combineV3<Combine>(a, fourDoublesV3(values));
    b = combineV3<Combine>(b, fourDoublesV3(values + 4));
    c = combineV3<Combine>(c, fourDoublesV3(values + 8));
    d = combineV3<Combine>(d, fourDoublesV3(values + 12));
  }
  _mm256_storeu_pd(lanes, a);
  _mm256_storeu_pd(lanes + 4, b);
  _mm256_storeu_pd(lanes + 8, c);
  _mm256_storeu_pd(lanes + 12, d);
}

template <typename Combine, typename Element>
HIPRESS_TARGET_V3 inline void combineLanesV3(float* lanes, const Element* values, size_t groups) {
  __m256 low = _mm256_loadu_ps(lanes);
  __m256 high = _mm256_loadu_ps(lanes + 8);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    low = combineV3<Combine>(low, eightFloatsV3(values));
    high = combineV3<Combine>(high, eightFloatsV3(values + 8));
  }
  _mm256_storeu_ps(lanes, low);
  _mm256_storeu_ps(lanes + 8, high);
}

template <typename Combine>
HIPRESS_TARGET_V3 inline void combineLanesV3(int32_t* lanes, const int32_t* values, size_t groups) {
  __m256i low = eightIntsV3(lanes);
  __m256i high = eightIntsV3(lanes + 8);
  for (size_t group = 0; group < groups; ++group, values += 16) {
    low = combineV3<Combine>(low, eightIntsV3(values));
    high = combineV3<Combine>(high, eightIntsV3(values + 8));
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(lanes), low);
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(lanes + 8), high);
}

}  // namespace detail
}  // namespace hipress::ops
