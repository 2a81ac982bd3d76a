// SPDX-License-Identifier: Apache-2.0
//
// The dense steps of PowerSGD (Vogels et al., NeurIPS 2019, algorithm 1): products of a matrix with a few
// vectors, in one pass over memory each, on the caller's thread and on the threads of `parallel`, unless that
// is nullptr. Matrices are row-major float32. Every sum has a fixed order, so results depend neither on
// threads nor on the instruction set.
#pragma once

#include <cstddef>

#include "core/codec/parallel.h"
#include "core/element/dtype.h"

namespace hipress {

/// The most vectors of a factor.
inline constexpr size_t kMaxRank = 32;

struct MatrixShape {
  size_t rows = 0;
  size_t columns = 0;

  size_t count() const { return rows * columns; }
};

/// Several vectors of equal length, one after the other.
struct Factor {
  float* values = nullptr;
  size_t length = 0;
  size_t vectors = 0;

  size_t count() const { return length * vectors; }
  float* vector(size_t k) const { return values + k * length; }
};

/// The parts of a matrix: scale · values + residual.
struct MatrixSource {
  const void* values = nullptr;  ///< At any address; nullptr: zeros.
  DType dtype = DType::kFloat32;
  float scale = 1.0f;
  const float* residual = nullptr;  ///< nullptr: zeros.
};

/// Writes `matrix`, and left_k = matrix · right_k, whose length is the number of rows. Throws Unsupported if
/// the source has no floating-point elements.
void makeLeftFactor(const MatrixSource& source, MatrixShape shape, Factor right, float* matrix, Factor left,
                    Parallel* parallel);

/// right_k = transposed matrix · left_k.
void makeRightFactor(const float* matrix, MatrixShape shape, Factor left, Factor right, Parallel* parallel);

/// Subtracts Σ_k left_k · transposed right_k from `matrix`, in place. Writes the product times `factor` to
/// `output`, as elements of `dtype` at any address. `matrix` nullptr: there is nothing to subtract from.
/// Returns whether all written elements are finite.
bool subtractProduct(Factor left, Factor right, float factor, float* matrix, MatrixShape shape, DType dtype,
                     void* output, Parallel* parallel);

/// Whether all values of the factor are finite.
bool isFinite(Factor factor);

}  // namespace hipress
