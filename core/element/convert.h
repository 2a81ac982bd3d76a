// SPDX-License-Identifier: Apache-2.0
//
// Converts between float32, in which HiPress computes, and the other floating-point types. Rounds to nearest
// even. NaN stays NaN (quiet, with the top of its payload), and a value that is too large becomes infinity.
// The bits are the same at every instruction-set level and under every denormal mode of the processor.
#pragma once

#include <span>

#include "core/element/dtype.h"

namespace hipress {

/// output = source, which has output.size() elements of `dtype` at any address. (From float64 this rounds.)
/// Throws Unsupported if `dtype` is not a floating-point type. The ranges must not overlap.
void widen(const void* source, DType dtype, std::span<float> output);

/// output = input, rounded to `dtype`. Throws Unsupported if `dtype` is not a floating-point type.
void narrow(std::span<const float> input, DType dtype, void* output);

}  // namespace hipress
