// SPDX-License-Identifier: Apache-2.0
//
// Makes the vectors of a factor orthogonal, with length 1, by Gram-Schmidt in float64, twice. All ranks do
// this with the same sums and must get the same bits, so every sum has a fixed order.
#pragma once

#include <cstdint>

#include "core/matrix/low_rank.h"

namespace hipress {

/// Makes each vector orthogonal to the earlier ones, with length 1. A vector becomes zero if it is zero, or
/// if it is a combination of the earlier ones within float32's precision: it then adds nothing to a product.
/// Values must be finite; all sizes from denormal to the largest are allowed.
void orthogonalize(Factor factor);

/// Like orthogonalize(), but draws such vectors at random, from -1 to 1, and makes them orthogonal. So the
/// factor spans as many dimensions as it has vectors, at most `length`. `step` selects the random values.
void orthogonalizeOrDraw(Factor factor, uint32_t step);

/// Element `index` of the drawn vector `vector`: SplitMix64's output for the three numbers.
float drawn(uint32_t step, size_t vector, size_t index);

}  // namespace hipress
