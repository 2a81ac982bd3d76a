// SPDX-License-Identifier: Apache-2.0
#include "core/matrix/power_step.h"

#include <algorithm>
#include <limits>

#include "core/matrix/orthogonal.h"

namespace hipress::power {
namespace {

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

void fill(Factor factor, float value) {
  std::fill_n(factor.values, factor.count(), value);
}

}  // namespace

void makeLeft(const MatrixSource& source, MatrixShape shape, Factor right, uint32_t step, float* matrix,
              Factor left, Parallel* parallel) {
  orthogonalizeOrDraw(right, step);
  if (matrix != nullptr) makeLeftFactor(source, shape, right, matrix, left, parallel);
}

bool makeRight(const float* matrix, MatrixShape shape, Factor left, Factor right, Parallel* parallel) {
  const bool finite = isFinite(left);
  if (finite) orthogonalize(left);
  if (!finite) {
    fill(right, kNotANumber);
  } else if (matrix != nullptr) {
    makeRightFactor(matrix, shape, left, right, parallel);
  }
  return finite;
}

bool finish(Factor left, Factor right, float ranks, float factor, float* matrix, MatrixShape shape,
            DType dtype, void* output, Parallel* parallel) {
  const bool finite = isFinite(left) && isFinite(right);
  const float share = 1.0f / ranks;
  for (size_t i = 0; i < right.count(); ++i) right.values[i] *= share;
  if (!finite) {
    fill(left, kNotANumber);
    fill(right, kNotANumber);
  }
  return subtractProduct(left, right, factor, finite ? matrix : nullptr, shape, dtype, output, parallel);
}

}  // namespace hipress::power
