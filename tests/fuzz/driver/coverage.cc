// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/coverage.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

namespace hipress::fuzz {
namespace {

constexpr size_t kSlots = 1 << 16;

alignas(64) std::array<uint8_t, kSlots> counts;     // of this run; a count stops at 255
alignas(64) std::array<uint8_t, kSlots> magnitude;  // bit k: a run had a count from 2^k to 2^(k+1) - 1
uintptr_t previousBlock = 0;

uintptr_t mixed(uintptr_t address) {
  return (address * 0x9e3779b97f4a7c15u) >> 40;
}

}  // namespace

void startCoverage() {
  counts.fill(0);
  previousBlock = 0;
}

size_t takeNewCoverage() {
  size_t found = 0;
  for (size_t begin = 0; begin < kSlots; begin += sizeof(uint64_t)) {
    uint64_t eight;
    std::memcpy(&eight, counts.data() + begin, sizeof(eight));
    if (eight == 0) continue;  // most counts are 0, because a run takes few ways
    for (size_t slot = begin; slot < begin + sizeof(eight); ++slot) {
      if (counts[slot] == 0) continue;
      const auto bit = static_cast<uint8_t>(std::bit_floor(counts[slot]));
      if ((magnitude[slot] & bit) != 0) continue;
      magnitude[slot] |= bit;
      ++found;
    }
  }
  return found;
}

size_t pairsCovered() {
  size_t covered = 0;
  for (const uint8_t bits : magnitude) covered += bits != 0 ? 1 : 0;
  return covered;
}

}  // namespace hipress::fuzz

extern "C" void __sanitizer_cov_trace_pc() {
  using namespace hipress::fuzz;
  const uintptr_t block = mixed(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  uint8_t& count = counts[(block ^ (previousBlock >> 1)) % kSlots];
  if (count != 255) ++count;
  previousBlock = block;
}
