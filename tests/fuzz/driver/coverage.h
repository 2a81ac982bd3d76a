// SPDX-License-Identifier: Apache-2.0
//
// The coverage of the instrumented code. The compiler calls a function in every basic block
// (-fsanitize-coverage=trace-pc). A map of hashes counts each pair of blocks that follow each other.
#pragma once

#include <cstddef>

namespace hipress::fuzz {

/// Forgets the current run, but not the coverage of earlier runs.
void startCoverage();

/// The number of new pairs of blocks, or new orders of magnitude of their counts, that no run before had.
/// They are remembered.
size_t takeNewCoverage();

/// The number of pairs of blocks that all runs have found.
size_t pairsCovered();

}  // namespace hipress::fuzz
