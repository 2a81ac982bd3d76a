// SPDX-License-Identifier: Apache-2.0
#include "core/codec/crc32c.h"

#include <array>
#include <cstring>

#include "core/element/multiversion.h"

namespace hipress {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82f63b78u;

/// tables[k][b]: what byte b contributes when k more bytes follow it in its group of eight.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? kReflectedPolynomial : 0u);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xffu];
    }
  }
  return tables;
}();

uint32_t addByte(uint32_t crc, std::byte value) {
  return (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(value)) & 0xffu];
}

uint64_t loadWord(const std::byte* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint32_t addWordPortable(uint32_t crc, uint64_t word) {
  word ^= crc;
  uint32_t result = 0;
  for (size_t k = 0; k < 8; ++k) result ^= kTables[7 - k][(word >> (8 * k)) & 0xffu];
  return result;
}

#if HIPRESS_X86
__attribute__((target("sse4.2"))) inline uint32_t addWordSse42(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}
#endif

template <IsaLevel level>
struct Crc32c {
  static uint32_t run(const std::byte* bytes, size_t count) {
    uint32_t crc = 0xffffffffu;
    for (; count >= 8; bytes += 8, count -= 8) {
#if HIPRESS_X86
      if constexpr (level != IsaLevel::kGeneric) {
        crc = addWordSse42(crc, loadWord(bytes));
        continue;
      }
#endif
      crc = addWordPortable(crc, loadWord(bytes));
    }
    for (; count > 0; ++bytes, --count) crc = addByte(crc, *bytes);
    return ~crc;
  }
};

}  // namespace

uint32_t crc32c(ConstBytes bytes) {
  return multiversion<Crc32c>(bytes.data(), bytes.size());
}

}  // namespace hipress
