// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/planted_bug.h"

namespace hipress::fuzz {

int plantedBug(std::span<const uint8_t> input) {
  if (input.size() < 64) return 0;
  const int table[4] = {1, 2, 3, 4};
  size_t at = input[0] % 4;
  if (input[17] == 0xc3) {
    if (input[48] == 0x5e) at += 4;
  }
  return table[at];
}

}  // namespace hipress::fuzz
