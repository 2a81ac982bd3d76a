// SPDX-License-Identifier: Apache-2.0
#include "core/matrix/low_rank.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/element/convert.h"
#include "core/element/finite.h"
#include "core/matrix/low_rank_kernels.h"

namespace hipress {
namespace {

using matrix::kBlock;
using matrix::kTogether;

/// The work of one thread in elements. For less, sharing takes longer than the work.
constexpr size_t kShare = size_t{1} << 16;

/// Calls body(first, count) for pieces of `length`.
template <typename Body>
void inPieces(size_t length, size_t favoured, Parallel* parallel, const Body& body) {
  const size_t piece = std::max<size_t>(favoured, 1);
  const size_t pieces = (length + piece - 1) / piece;
  const auto one = [&](size_t index) {
    const size_t first = index * piece;
    body(first, std::min(piece, length - first));
  };
  if (parallel != nullptr && pieces > 1) return parallel->run(pieces, one);
  for (size_t index = 0; index < pieces; ++index) one(index);
}

size_t rowsOfShare(MatrixShape shape) {
  return kShare / std::max<size_t>(shape.columns, 1);
}

/// Computes one block of a row of the matrix.
void gather(const MatrixSource& source, size_t first, size_t count, float* matrix) {
  if (source.values == nullptr) {
    if (source.residual == nullptr) return void(std::fill_n(matrix, count, 0.0f));
    return void(std::copy_n(source.residual + first, count, matrix));
  }
  const auto* bytes = static_cast<const std::byte*>(source.values) + first * elementSize(source.dtype);
  const float* residual = source.residual == nullptr ? nullptr : source.residual + first;
  if (source.dtype == DType::kFloat32 && reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
    const auto* floats = reinterpret_cast<const float*>(bytes);
    return multiversion<matrix::Gather>(floats, source.scale, residual, matrix, count);
  }
  alignas(64) std::array<float, kBlock> values;
  widen(bytes, source.dtype, std::span(values).first(count));
  multiversion<matrix::Gather>(static_cast<const float*>(values.data()), source.scale, residual, matrix,
                               count);
}

}  // namespace

void makeLeftFactor(const MatrixSource& source, MatrixShape shape, Factor right, float* matrix, Factor left,
                    Parallel* parallel) {
  inPieces(shape.rows, rowsOfShare(shape), parallel, [&](size_t firstRow, size_t rows) {
    for (size_t row = firstRow; row < firstRow + rows; ++row) {
      std::array<float, kMaxRank> sums{};
      for (size_t column = 0; column < shape.columns; column += kBlock) {
        const size_t count = std::min(kBlock, shape.columns - column);
        const size_t first = row * shape.columns + column;
        gather(source, first, count, matrix + first);
        multiversion<matrix::Dots>(static_cast<const float*>(matrix + first),
                                   static_cast<const float*>(right.values + column), right.length,
                                   right.vectors, count, sums.data());
      }
      for (size_t k = 0; k < left.vectors; ++k) left.vector(k)[row] = sums[k];
    }
  });
}

void makeRightFactor(const float* matrix, MatrixShape shape, Factor left, Factor right, Parallel* parallel) {
  // A narrow matrix gets smaller pieces, so that several threads have work.
  const size_t piece = shape.columns >= 4 * kBlock ? kBlock : kBlock / 4;
  inPieces(shape.columns, piece, parallel, [&](size_t column, size_t count) {
    for (size_t k = 0; k < right.vectors; ++k) std::fill_n(right.vector(k) + column, count, 0.0f);
    for (size_t row = 0; row < shape.rows; row += kTogether) {
      const size_t rows = std::min(kTogether, shape.rows - row);
      for (size_t k = 0; k < right.vectors; ++k) {
        multiversion<matrix::AddRows>(matrix + row * shape.columns + column, shape.columns,
                                      static_cast<const float*>(left.vector(k) + row), rows,
                                      right.vector(k) + column, count);
      }
    }
  });
}

bool subtractProduct(Factor left, Factor right, float factor, float* matrix, MatrixShape shape, DType dtype,
                     void* output, Parallel* parallel) {
  auto* const bytes = static_cast<std::byte*>(output);
  std::atomic<bool> finite{true};
  inPieces(shape.rows, rowsOfShare(shape), parallel, [&](size_t firstRow, size_t rows) {
    alignas(64) std::array<float, kBlock> product;
    for (size_t row = firstRow; row < firstRow + rows; ++row) {
      std::array<float, kMaxRank> factors;
      for (size_t k = 0; k < left.vectors; ++k) factors[k] = left.vector(k)[row];
      for (size_t column = 0; column < shape.columns; column += kBlock) {
        const size_t count = std::min(kBlock, shape.columns - column);
        const size_t first = row * shape.columns + column;
        std::fill_n(product.data(), count, 0.0f);
        multiversion<matrix::AddRows>(static_cast<const float*>(right.values + column), right.length,
                                      static_cast<const float*>(factors.data()), left.vectors, product.data(),
                                      count);
        multiversion<matrix::Subtract>(product.data(), factor, matrix == nullptr ? nullptr : matrix + first,
                                       count);
        std::byte* const written = bytes + first * elementSize(dtype);
        narrow(std::span<const float>(product).first(count), dtype, written);
        if (!allFinite(written, dtype, count)) finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  return finite.load(std::memory_order_relaxed);
}

bool isFinite(Factor factor) {
  return std::all_of(factor.values, factor.values + factor.count(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace hipress
