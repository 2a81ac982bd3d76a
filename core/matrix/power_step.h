// SPDX-License-Identifier: Apache-2.0
//
// One step of PowerSGD on one rank (Vogels et al., NeurIPS 2019, algorithms 1 and 2), cut at the sums:
//   M = scale · G + E;  Q made orthogonal;  P = M · Q      makeLeft, then P is summed over ranks
//   P made orthogonal;  Q = transposed M · P               makeRight, then Q is summed over ranks
//   Q divided by the number of ranks;  E = M - P · transposed Q;  the result is P · transposed Q
// The residuals E of all N ranks add up to the sum of all M less N times the result. All ranks compute the
// same bits from the same sums.
#pragma once

#include <cstdint>

#include "core/matrix/low_rank.h"

namespace hipress::power {

/// `right` has the last step's factor, or zeros. It becomes orthogonal; `step` selects random values for its
/// zero vectors. Writes `matrix` and `left`, unless `matrix` is nullptr, as on a rank without values.
void makeLeft(const MatrixSource& source, MatrixShape shape, Factor right, uint32_t step, float* matrix,
              Factor left, Parallel* parallel);

/// `left` has the sum, and becomes orthogonal. Writes `right`, unless `matrix` is nullptr, as on a rank
/// without values. Returns false, with NaN in `right`, if the sum is not finite.
bool makeRight(const float* matrix, MatrixShape shape, Factor left, Factor right, Parallel* parallel);

/// `right` has the sum of `ranks` ranks, and becomes their mean. Writes the result, multiplied by `factor`,
/// and turns `matrix` into the residual; nullptr: no residual is kept. Returns false, on all ranks alike, if
/// a value was not finite on any rank (the result is then NaN everywhere) or the result is not finite. The
/// states then stay as they were before the step: the caller drops `matrix` and `right`.
bool finish(Factor left, Factor right, float ranks, float factor, float* matrix, MatrixShape shape,
            DType dtype, void* output, Parallel* parallel);

}  // namespace hipress::power
