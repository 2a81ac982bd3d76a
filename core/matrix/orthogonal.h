// SPDX-License-Identifier: Apache-2.0
//
// Makes the vectors of a factor orthogonal, of length 1, by Gram-Schmidt in float64, twice. All ranks do so
// with the same sums and must find the same bits: every sum has a fixed order.
#pragma once

#include <cstdint>

#include "core/matrix/low_rank.h"

namespace hipress {

/// Each vector becomes orthogonal to those before it, with length 1. A vector that is zero, or that the
/// vectors before it make up to float32's precision, becomes zero: it adds nothing to a product. Values must
/// be finite; sizes from denormal to the largest are all right.
void orthogonalize(Factor factor);

/// The same, but such vectors are drawn at random, from -1 to 1, and made orthogonal: the factor spans as
/// many dimensions as it has vectors, of which there are at most `length`. `step` chooses what is drawn.
void orthogonalizeOrDraw(Factor factor, uint32_t step);

/// Element `index` of vector `vector` that is drawn: SplitMix64's output for the three numbers.
float drawn(uint32_t step, size_t vector, size_t index);

}  // namespace hipress
