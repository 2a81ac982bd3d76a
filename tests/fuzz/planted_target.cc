// SPDX-License-Identifier: Apache-2.0
//
// The target of the planted bug: it shows that the fuzzer finds bugs.
#include "tests/fuzz/driver/target.h"
#include "tests/fuzz/planted_bug.h"

namespace hipress::fuzz {

std::vector<Seed> targetSeeds() {
  return {{"zeros", Input(64)}};
}

void runTarget(std::span<const uint8_t> input) {
  [[maybe_unused]] volatile int result = plantedBug(input);
}

}  // namespace hipress::fuzz
