// SPDX-License-Identifier: Apache-2.0
//
// The lanes of a reduction in registers, for loops that make kLanes elements at a time and combine them at
// once, so that the elements need no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/element/multiversion.h"
#include "core/ops/cpu/reduce_lanes.h"
#include "core/ops/tile.h"

namespace hipress::ops {

namespace detail {

/// kLanes values of float, double or int32_t. The plain version.
template <IsaLevel level, typename T>
struct LaneRegisters {
  T values[kLanes];

  void load(const T* from) {
    for (size_t lane = 0; lane < kLanes; ++lane) values[lane] = from[lane];
  }
  void store(T* to) const {
    for (size_t lane = 0; lane < kLanes; ++lane) to[lane] = values[lane];
  }
  template <typename Combine>
  void combine(const T* others) {
    for (size_t lane = 0; lane < kLanes; ++lane) values[lane] = Combine()(values[lane], others[lane]);
  }
};

#if HIPRESS_X86
template <>
struct LaneRegisters<IsaLevel::kV3, float> {
  __m256 low, high;

  HIPRESS_TARGET_V3 void load(const float* from) {
    low = _mm256_loadu_ps(from);
    high = _mm256_loadu_ps(from + 8);
  }
  HIPRESS_TARGET_V3 void store(float* to) const {
    _mm256_storeu_ps(to, low);
    _mm256_storeu_ps(to + 8, high);
  }
  template <typename Combine>
  HIPRESS_TARGET_V3 void combine(const float* others) {
    low = combineV3<Combine>(low, _mm256_loadu_ps(others));
    high = combineV3<Combine>(high, _mm256_loadu_ps(others + 8));
  }
};

template <>
struct LaneRegisters<IsaLevel::kV3, int32_t> {
  __m256i low, high;

  HIPRESS_TARGET_V3 void load(const int32_t* from) {
    low = eightIntsV3(from);
    high = eightIntsV3(from + 8);
  }
  HIPRESS_TARGET_V3 void store(int32_t* to) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to + 8), high);
  }
  template <typename Combine>
  HIPRESS_TARGET_V3 void combine(const int32_t* others) {
    low = combineV3<Combine>(low, eightIntsV3(others));
    high = combineV3<Combine>(high, eightIntsV3(others + 8));
  }
};

template <>
struct LaneRegisters<IsaLevel::kV3, double> {
  __m256d quarters[4];

  HIPRESS_TARGET_V3 void load(const double* from) {
    for (size_t quarter = 0; quarter < 4; ++quarter) quarters[quarter] = fourDoublesV3(from + 4 * quarter);
  }
  HIPRESS_TARGET_V3 void store(double* to) const {
    for (size_t quarter = 0; quarter < 4; ++quarter) _mm256_storeu_pd(to + 4 * quarter, quarters[quarter]);
  }
  template <typename Combine>
  HIPRESS_TARGET_V3 void combine(const double* others) {
    for (size_t quarter = 0; quarter < 4; ++quarter)
      quarters[quarter] = combineV3<Combine>(quarters[quarter], fourDoublesV3(others + 4 * quarter));
  }
};

template <>
struct LaneRegisters<IsaLevel::kV4, float> {
  __m512 all;

  HIPRESS_TARGET_V4 void load(const float* from) { all = _mm512_loadu_ps(from); }
  HIPRESS_TARGET_V4 void store(float* to) const { _mm512_storeu_ps(to, all); }
  template <typename Combine>
  HIPRESS_TARGET_V4 void combine(const float* others) {
    all = combineV4<Combine>(all, _mm512_loadu_ps(others));
  }
};

template <>
struct LaneRegisters<IsaLevel::kV4, double> {
  __m512d low, high;

  HIPRESS_TARGET_V4 void load(const double* from) {
    low = eightDoublesV4(from);
    high = eightDoublesV4(from + 8);
  }
  HIPRESS_TARGET_V4 void store(double* to) const {
    _mm512_storeu_pd(to, low);
    _mm512_storeu_pd(to + 8, high);
  }
  template <typename Combine>
  HIPRESS_TARGET_V4 void combine(const double* others) {
    low = combineV4<Combine>(low, eightDoublesV4(others));
    high = combineV4<Combine>(high, eightDoublesV4(others + 8));
  }
};

template <>
struct LaneRegisters<IsaLevel::kV4, int32_t> {
  __m512i all;

  HIPRESS_TARGET_V4 void load(const int32_t* from) { all = _mm512_loadu_si512(from); }
  HIPRESS_TARGET_V4 void store(int32_t* to) const { _mm512_storeu_si512(to, all); }
  template <typename Combine>
  HIPRESS_TARGET_V4 void combine(const int32_t* others) {
    all = combineV4<Combine>(all, _mm512_loadu_si512(others));
  }
};
#endif

}  // namespace detail

/// Combine is Sum, Least or Greatest, T is float, double or int32_t.
template <IsaLevel level, typename T, typename Combine>
class LaneGroup {
 public:
  /// Loads the lanes; `started`: they have values already.
  LaneGroup(T* lanes, bool started) : lanes_(lanes), started_(started) { registers_.load(lanes); }

  /// Combines the next kLanes elements.
  void combine(const T* values) {
    if (started_) {
      registers_.template combine<Combine>(values);
    } else {
      registers_.load(values);
      started_ = true;
    }
  }

  /// Stores the lanes.
  void store() const { registers_.store(lanes_); }

 private:
  T* lanes_;
  detail::LaneRegisters<level, T> registers_;
  bool started_;
};

}  // namespace hipress::ops
