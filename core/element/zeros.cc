// SPDX-License-Identifier: Apache-2.0
#include "core/element/zeros.h"

#include <algorithm>
#include <cstdint>

#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {
namespace {

template <IsaLevel level>
struct Zeros {
  static bool run(const Unaligned<uint64_t>* words, size_t count) {
    uint64_t set = 0;
    for (size_t i = 0; i < count; ++i) set |= words[i].value;
    return set == 0;
  }
};

}  // namespace

bool areZeros(std::span<const std::byte> bytes) {
  constexpr size_t kWords = 512;  // of one look
  const auto* words = reinterpret_cast<const Unaligned<uint64_t>*>(bytes.data());
  const size_t whole = bytes.size() / sizeof(uint64_t);
  for (size_t begin = 0; begin < whole; begin += kWords) {
    if (!multiversion<Zeros>(words + begin, std::min(kWords, whole - begin))) return false;
  }
  return std::ranges::all_of(bytes.subspan(whole * sizeof(uint64_t)),
                             [](std::byte one) { return one == std::byte{0}; });
}

}  // namespace hipress
