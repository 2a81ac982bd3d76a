// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/comparisons.h"

#include <array>
#include <bit>

namespace hipress::fuzz {
namespace {

std::array<Comparison, kComparisons> seen;

void note(uint64_t left, uint64_t right, size_t bytes, void* place) {
  if (left == right) return;
  seen[(reinterpret_cast<uintptr_t>(place) * 0x9e3779b97f4a7c15u >> 32) % kComparisons] = {left, right,
                                                                                           bytes};
}

}  // namespace

void startComparisons() {
  seen.fill({});
}

const Comparison& comparison(size_t slot) {
  return seen[slot];
}

}  // namespace hipress::fuzz

using hipress::fuzz::note;

extern "C" {
void __sanitizer_cov_trace_cmp1(uint8_t left, uint8_t right) {
  note(left, right, 1, __builtin_return_address(0));
}
void __sanitizer_cov_trace_cmp2(uint16_t left, uint16_t right) {
  note(left, right, 2, __builtin_return_address(0));
}
void __sanitizer_cov_trace_cmp4(uint32_t left, uint32_t right) {
  note(left, right, 4, __builtin_return_address(0));
}
void __sanitizer_cov_trace_cmp8(uint64_t left, uint64_t right) {
  note(left, right, 8, __builtin_return_address(0));
}
void __sanitizer_cov_trace_const_cmp1(uint8_t left, uint8_t right) {
  note(left, right, 1, __builtin_return_address(0));
}
void __sanitizer_cov_trace_const_cmp2(uint16_t left, uint16_t right) {
  note(left, right, 2, __builtin_return_address(0));
}
void __sanitizer_cov_trace_const_cmp4(uint32_t left, uint32_t right) {
  note(left, right, 4, __builtin_return_address(0));
}
void __sanitizer_cov_trace_const_cmp8(uint64_t left, uint64_t right) {
  note(left, right, 8, __builtin_return_address(0));
}
void __sanitizer_cov_trace_cmpf(float left, float right) {
  note(std::bit_cast<uint32_t>(left), std::bit_cast<uint32_t>(right), 4, __builtin_return_address(0));
}
void __sanitizer_cov_trace_cmpd(double left, double right) {
  note(std::bit_cast<uint64_t>(left), std::bit_cast<uint64_t>(right), 8, __builtin_return_address(0));
}
/// `cases`: the number of cases, the bits of the value, and then the cases.
void __sanitizer_cov_trace_switch(uint64_t value, uint64_t* cases) {
  for (uint64_t i = 0; i < cases[0]; ++i) note(value, cases[2 + i], cases[1] / 8, cases + 2 + i);
}
}
