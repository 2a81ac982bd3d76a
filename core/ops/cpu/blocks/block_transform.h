// SPDX-License-Identifier: Apache-2.0
//
// Linear maps of each block of a vector, while the block is in the first cache. The last block is copied if
// it is short. The order of all sums is part of the language: instruction sets do not change a bit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "core/element/multiversion.h"

namespace hipress::ops {

namespace detail {

/// Floats that one operation takes; a processor with narrower registers takes several.
inline constexpr size_t kFloats = 16;
using Floats [[gnu::vector_size(4 * kFloats), gnu::may_alias]] = float;

}  // namespace detail

/// Collects the elements of one block after the other, which come in tiles.
template <size_t kSize>
class BlockElements {
 public:
  void add(const float* values, size_t count) {
    std::memcpy(values_ + count_, values, count * sizeof(float));
    count_ += count;
  }

  /// Ends the block. Whether it was whole; otherwise its elements are copied to `out`.
  bool end(float* out) {
    const size_t count = count_;
    count_ = 0;
    if (count == kSize) return true;
    std::memcpy(out, values_, count * sizeof(float));
    return false;
  }

 protected:
  alignas(64) float values_[kSize];

 private:
  size_t count_ = 0;
};

/// out[i] = m[i][0] x[0] + m[i][1] x[1] + …, added in this order.
template <IsaLevel level, size_t kSize>
class MatrixBlocks : public BlockElements<kSize> {
 public:
  /// `columns` holds column after column of the matrix, each filled up to a multiple of 16 elements and
  /// aligned to 64 bytes.
  explicit MatrixBlocks(const float* columns) : columns_(reinterpret_cast<const detail::Floats*>(columns)) {}

  void finish(float* out) {
    if (!this->end(out)) return;
    detail::Floats sums[kVectors];
    for (size_t k = 0; k < kVectors; ++k) sums[k] = columns_[k] * this->values_[0];
    for (size_t j = 1; j < kSize; ++j) {
      const float x = this->values_[j];
#pragma GCC unroll 4
      for (size_t k = 0; k < kVectors; ++k) sums[k] += columns_[j * kVectors + k] * x;
    }
    std::memcpy(out, sums, kSize * sizeof(float));
  }

 private:
  static constexpr size_t kVectors = (kSize + detail::kFloats - 1) / detail::kFloats;
  const detail::Floats* columns_;
};

/// The Walsh-Hadamard transform over √kSize: first the block's halves are added and subtracted, then the
/// halves of each half, and so on.
template <IsaLevel level, size_t kSize>
class HadamardBlocks : public BlockElements<kSize> {
 public:
  /// `scale` is 1 / √kSize as a float.
  explicit HadamardBlocks(float scale) : scale_(scale) {}

  /// Every step takes the upper half of the places and puts sums and differences beside each other. That
  /// turns the bits of an element's place by one, so after all steps the places are right, and no step is
  /// short.
  void finish(float* out) {
    if (!this->end(out)) return;
    constexpr size_t kHalf = kSize / 2;
    float* from = this->values_;
    float* to = other_;
    for (size_t rest = kHalf; rest != 0; rest /= 2, std::swap(from, to)) {
#pragma GCC ivdep
      for (size_t i = 0; i < kHalf; ++i) {
        const float a = from[i], b = from[i + kHalf];
        to[2 * i] = a + b;
        to[2 * i + 1] = a - b;
      }
    }
    for (size_t i = 0; i < kSize; ++i) out[i] = from[i] * scale_;
  }

 private:
  alignas(64) float other_[kSize];
  float scale_;
};

}  // namespace hipress::ops
