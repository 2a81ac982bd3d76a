// SPDX-License-Identifier: Apache-2.0
//
// The unequal comparisons of the instrumented code (-fsanitize-coverage=trace-cmp). One side is often a part
// of the input, and the other side its right value: a size, a limit, a checksum, a magic number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipress::fuzz {

struct Comparison {
  uint64_t left = 0;
  uint64_t right = 0;
  size_t bytes = 0;  ///< The size of each side; 0: no comparison.
};

/// Forgets all comparisons.
void startComparisons();

constexpr size_t kComparisons = 64;

/// A comparison since startComparisons(). Each slot holds one comparison; a place's hash gives the slot.
const Comparison& comparison(size_t slot);

}  // namespace hipress::fuzz
