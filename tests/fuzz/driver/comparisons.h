// SPDX-License-Identifier: Apache-2.0
//
// What the instrumented code compared and found unequal (-fsanitize-coverage=trace-cmp). One side is often a
// piece of the input and the other what it should have been: a size, a limit, a checksum, a magic number.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipress::fuzz {

struct Comparison {
  uint64_t left = 0;
  uint64_t right = 0;
  size_t bytes = 0;  ///< Of each side; 0: no comparison.
};

/// Forgets all.
void startComparisons();

constexpr size_t kComparisons = 64;

/// Of the runs since startComparisons(), one for each of so many hashes of places in the code.
const Comparison& comparison(size_t slot);

}  // namespace hipress::fuzz
