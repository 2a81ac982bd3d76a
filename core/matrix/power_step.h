// SPDX-License-Identifier: Apache-2.0
//
// One step of PowerSGD on one rank (Vogels et al., NeurIPS 2019, algorithms 1 and 2), cut where ranks add up:
//   M = scale · G + E;  Q made orthogonal;  P = M · Q      makeLeft, then P is summed over ranks
//   P made orthogonal;  Q = transposed M · P               makeRight, then Q is summed over ranks
//   Q divided by the number of ranks;  E = M - P · transposed Q;  the result is P · transposed Q
// The residuals E of all ranks are together what the results lack. All ranks compute the same bits from the
// same sums.
#pragma once

#include <cstdint>

#include "core/matrix/low_rank.h"

namespace hipress::power {

/// `right` has the last step's factor, or zeros; it becomes orthogonal, and `step` chooses what is drawn for
/// vectors that are zero. Writes `matrix`, and `left`, unless it has no values.
void makeLeft(const MatrixSource& source, MatrixShape shape, Factor right, uint32_t step, float* matrix,
              Factor left, Parallel* parallel);

/// `left` is the sum, and becomes orthogonal. Writes `right`, unless `matrix` is nullptr: a rank without
/// values. False, and NaN in `right`, if the sum is not finite.
bool makeRight(const float* matrix, MatrixShape shape, Factor left, Factor right, Parallel* parallel);

/// `right` is the sum, of so many ranks, and becomes their mean. Writes the result, multiplied by `factor`,
/// and turns `matrix` into the residual; nullptr: none is kept. False, with NaN as the result everywhere and
/// the matrix as it was, if a value was not finite on any rank: all ranks see the same.
bool finish(Factor left, Factor right, int ranks, float factor, float* matrix, MatrixShape shape, DType dtype,
            void* output, Parallel* parallel);

}  // namespace hipress::power
