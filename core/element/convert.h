// SPDX-License-Identifier: Apache-2.0
//
// Between float32, in which everything is computed, and the other floating-point types. Rounding is to
// nearest even, NaN stays NaN (quiet, the top of its payload kept), too large becomes infinity. Bits are the
// same at every instruction-set level and do not depend on the processor's denormal mode.
#pragma once

#include <span>

#include "core/element/dtype.h"

namespace hipress {

/// output = source, which holds output.size() elements of `dtype` at any address. (From float64 this rounds.)
/// Throws Unsupported if `dtype` is not a floating-point type. The ranges do not overlap.
void widen(const void* source, DType dtype, std::span<float> output);

/// output = input, rounded to `dtype`. Throws Unsupported if `dtype` is not a floating-point type.
void narrow(std::span<const float> input, DType dtype, void* output);

}  // namespace hipress
