// SPDX-License-Identifier: Apache-2.0
//
// Which ways through the instrumented code have been taken: the compiler calls in from every basic block
// (-fsanitize-coverage=trace-pc), and each pair of blocks that follow each other counts, in a map of hashes.
#pragma once

#include <cstddef>

namespace hipress::fuzz {

/// Forgets the current run, not what earlier ones have found.
void startCoverage();

/// How many pairs of blocks, or new orders of magnitude of their numbers, the run since startCoverage() was
/// the first to have; they are remembered.
size_t takeNewCoverage();

/// All pairs of blocks found so far.
size_t pairsCovered();

}  // namespace hipress::fuzz
