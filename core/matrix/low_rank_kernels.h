// SPDX-License-Identifier: Apache-2.0
//
// The loops of low_rank.h over a block of a matrix. A block of a row stays in the first cache level while all
// vectors pass over it, up to kTogether at once.
#pragma once

#include <cstddef>

#include "core/element/multiversion.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::matrix {

inline constexpr size_t kTogether = 4;
/// Elements of a row in one block.
inline constexpr size_t kBlock = 1024;
inline constexpr size_t kLanes = 16;

/// kVectors times sixteen sums, one per lane. GCC keeps them in registers only with explicit code.
template <IsaLevel level, size_t kVectors>
struct LaneSums {
  static void add(const float* row, const float* vectors, size_t stride, size_t count, float* lanes) {
    for (size_t j = 0; j < count; j += kLanes) {
      for (size_t k = 0; k < kVectors; ++k) {
        for (size_t lane = 0; lane < kLanes; ++lane)
          lanes[k * kLanes + lane] += row[j + lane] * vectors[k * stride + j + lane];
      }
    }
  }
};

#if HIPRESS_X86
template <size_t kVectors>
struct LaneSums<IsaLevel::kV3, kVectors> {
  HIPRESS_TARGET_V3 static void add(const float* row, const float* vectors, size_t stride, size_t count,
                                    float* lanes) {
    __m256 sums[2 * kVectors];
    for (size_t k = 0; k < 2 * kVectors; ++k) sums[k] = _mm256_setzero_ps();
    for (size_t j = 0; j < count; j += kLanes) {
      const __m256 low = _mm256_loadu_ps(row + j);
      const __m256 high = _mm256_loadu_ps(row + j + 8);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) {
        const float* vector = vectors + k * stride + j;
        sums[2 * k] = _mm256_add_ps(sums[2 * k], _mm256_mul_ps(low, _mm256_loadu_ps(vector)));
        sums[2 * k + 1] = _mm256_add_ps(sums[2 * k + 1], _mm256_mul_ps(high, _mm256_loadu_ps(vector + 8)));
      }
    }
    for (size_t k = 0; k < 2 * kVectors; ++k) _mm256_storeu_ps(lanes + 8 * k, sums[k]);
  }
};

template <size_t kVectors>
struct LaneSums<IsaLevel::kV4, kVectors> {
  HIPRESS_TARGET_V4 static void add(const float* row, const float* vectors, size_t stride, size_t count,
                                    float* lanes) {
    __m512 sums[kVectors];
    for (size_t k = 0; k < kVectors; ++k) sums[k] = _mm512_setzero_ps();
    for (size_t j = 0; j < count; j += kLanes) {
      const __m512 values = _mm512_loadu_ps(row + j);
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k)
        sums[k] = _mm512_add_ps(sums[k], _mm512_mul_ps(values, _mm512_loadu_ps(vectors + k * stride + j)));
    }
    for (size_t k = 0; k < kVectors; ++k) _mm512_storeu_ps(lanes + kLanes * k, sums[k]);
  }
};
#endif

/// sums[k] += Σ_j row[j] · vectors[k · stride + j]. Lane j mod 16 has its own sum, and the lanes are added in
/// halves.
template <IsaLevel level>
struct Dots {
  template <size_t kVectors>
  static void some(const float* row, const float* vectors, size_t stride, size_t count, float* sums) {
    alignas(64) float lanes[kVectors * kLanes] = {};
    const size_t whole = count - count % kLanes;
    LaneSums<level, kVectors>::add(row, vectors, stride, whole, lanes);
    for (size_t j = whole; j < count; ++j) {
      for (size_t k = 0; k < kVectors; ++k) lanes[k * kLanes + j - whole] += row[j] * vectors[k * stride + j];
    }
    for (size_t k = 0; k < kVectors; ++k) {
      float* const own = lanes + k * kLanes;
      for (size_t half = kLanes / 2; half > 0; half /= 2) {
        for (size_t lane = 0; lane < half; ++lane) own[lane] += own[lane + half];
      }
      sums[k] += own[0];
    }
  }

  static void run(const float* row, const float* vectors, size_t stride, size_t number, size_t count,
                  float* sums) {
    size_t k = 0;
    for (; k + kTogether <= number; k += kTogether)
      some<kTogether>(row, vectors + k * stride, stride, count, sums + k);
    if (number - k == 3) some<3>(row, vectors + k * stride, stride, count, sums + k);
    if (number - k == 2) some<2>(row, vectors + k * stride, stride, count, sums + k);
    if (number - k == 1) some<1>(row, vectors + k * stride, stride, count, sums + k);
  }
};

/// matrix[j] = scale · matrix[j] + residual[j]; residual nullptr: zeros.
template <IsaLevel level>
struct Gather {
  static void run(const float* values, float scale, const float* residual, float* matrix, size_t count) {
    if (residual == nullptr) {
      for (size_t j = 0; j < count; ++j) matrix[j] = scale * values[j];
    } else {
      for (size_t j = 0; j < count; ++j) matrix[j] = scale * values[j] + residual[j];
    }
  }
};

/// sums[j] += Σ_i factors[i] · rows[i · stride + j] for up to kTogether rows at once, in row order.
template <IsaLevel level>
struct AddRows {
  template <size_t kRows>
  static void some(const float* rows, size_t stride, const float* factors, float* __restrict sums,
                   size_t count) {
    for (size_t j = 0; j < count; ++j) {
      float sum = sums[j];
#pragma GCC unroll 4
      for (size_t i = 0; i < kRows; ++i) sum += factors[i] * rows[i * stride + j];
      sums[j] = sum;
    }
  }

  static void run(const float* rows, size_t stride, const float* factors, size_t number, float* sums,
                  size_t count) {
    size_t i = 0;
    for (; i + kTogether <= number; i += kTogether)
      some<kTogether>(rows + i * stride, stride, factors + i, sums, count);
    for (; i < number; ++i) some<1>(rows + i * stride, stride, factors + i, sums, count);
  }
};

/// matrix[j] -= product[j], unless matrix is nullptr. Then product[j] *= factor.
template <IsaLevel level>
struct Subtract {
  static void run(float* product, float factor, float* matrix, size_t count) {
    if (matrix != nullptr) {
      for (size_t j = 0; j < count; ++j) matrix[j] -= product[j];
    }
    if (factor == 1.0f) return;
    for (size_t j = 0; j < count; ++j) product[j] *= factor;
  }
};

}  // namespace hipress::matrix
