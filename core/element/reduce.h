// SPDX-License-Identifier: Apache-2.0
//
// The raw merge: combines the elements of several ranks in rank order, so that every run gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/element/dtype.h"

namespace hipress {

/// output[i] = (((c0[i] + c1[i]) + c2[i]) + ...) · factor, in one pass over memory. `output` may be one of
/// the contributions (exactly; without partial overlap). Addresses need no alignment.
///
/// - float32, float64: sum and product in their own type.
/// - float16, bfloat16: sum and product in float32, rounded once at the end.
/// - integers: with factor 1 the sum wraps in its own type; with another factor it is taken in int64,
///   multiplied in double and truncated toward zero, as Horovod averages integers, and saturates at the
///   type's limits.
/// - bool: logical or; only factor 1.
///
/// Throws InvalidArgument without contributions, or if an integer factor is not finite; Unsupported for bool
/// with another factor than 1.
void reduceInOrder(DType dtype, std::span<const void* const> contributions, size_t count, double factor,
                   void* output);

/// The way in which a merge combines the elements of several ranks.
enum class Combination : uint8_t { kSum, kMin, kMax, kProduct };

/// reduceInOrder() for another combination than the sum; folds.h has the rules for NaN and bool. Factors and
/// integers work as in reduceInOrder().
void combineInOrder(Combination combination, DType dtype, std::span<const void* const> contributions,
                    size_t count, double factor, void* output);

/// Throws the errors of reduceInOrder() for these arguments, and does nothing else.
void checkReduction(DType dtype, std::span<const void* const> contributions, double factor);

}  // namespace hipress
