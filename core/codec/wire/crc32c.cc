// SPDX-License-Identifier: Apache-2.0
#include "core/codec/wire/crc32c.h"

#include <array>
#include <cstring>

#include "core/element/multiversion.h"

namespace hipress {
namespace {

constexpr uint32_t kReflectedPolynomial = 0x82f63b78u;

/// kTables[k][b]: the contribution of byte b when k more bytes follow it in its group of eight.
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

constexpr uint32_t addByte(uint32_t crc, std::byte value) {
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

/// The CRC state after `bytes` more zero bytes, for any state. The function is linear, so four tables, one
/// for each byte of the state, suffice. The sum of the states of adjacent blocks needs it.
struct Shift {
  std::array<std::array<uint32_t, 256>, 4> tables{};

  explicit constexpr Shift(size_t bytes) {
    std::array<uint32_t, 32> ofBit{};
    for (size_t bit = 0; bit < 32; ++bit) {
      ofBit[bit] = uint32_t{1} << bit;
      for (size_t i = 0; i < bytes; ++i) ofBit[bit] = addByte(ofBit[bit], std::byte{0});
    }
    for (size_t k = 0; k < 4; ++k) {
      for (size_t byte = 0; byte < 256; ++byte) {
        for (size_t bit = 0; bit < 8; ++bit) {
          if (((byte >> bit) & 1u) != 0) tables[k][byte] ^= ofBit[8 * k + bit];
        }
      }
    }
  }

  uint32_t operator()(uint32_t crc) const {
    return tables[0][crc & 0xffu] ^ tables[1][(crc >> 8) & 0xffu] ^ tables[2][(crc >> 16) & 0xffu] ^
           tables[3][crc >> 24];
  }
};

// The instruction takes an operand in every cycle and has its result after three cycles: three blocks side by
// side keep it busy. Long blocks are the rule, because joining costs time; short blocks take the rest.
constexpr size_t kLongBlock = 4096;
constexpr size_t kShortBlock = 256;
constexpr Shift kLongShift(kLongBlock);
constexpr Shift kShortShift(kShortBlock);

#if HIPRESS_X86
__attribute__((target("sse4.2"))) inline uint32_t addWordSse42(uint32_t crc, uint64_t word) {
  return static_cast<uint32_t>(__builtin_ia32_crc32di(crc, word));
}

/// Consumes three blocks at a time while `count` allows it.
__attribute__((target("sse4.2"))) inline uint32_t addBlocksSse42(uint32_t crc, const std::byte*& bytes,
                                                                 size_t& count, size_t block,
                                                                 const Shift& shift) {
  for (; count >= 3 * block; bytes += 3 * block, count -= 3 * block) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < block; i += 8) {
      crc = addWordSse42(crc, loadWord(bytes + i));
      second = addWordSse42(second, loadWord(bytes + block + i));
      third = addWordSse42(third, loadWord(bytes + 2 * block + i));
    }
    crc = shift(shift(crc) ^ second) ^ third;
  }
  return crc;
}
#endif

template <IsaLevel level>
struct Crc32c {
  static uint32_t run(const std::byte* bytes, size_t count) {
    uint32_t crc = 0xffffffffu;
#if HIPRESS_X86
    if constexpr (level != IsaLevel::kGeneric) {
      crc = addBlocksSse42(crc, bytes, count, kLongBlock, kLongShift);
      crc = addBlocksSse42(crc, bytes, count, kShortBlock, kShortShift);
      for (; count >= 8; bytes += 8, count -= 8) crc = addWordSse42(crc, loadWord(bytes));
    }
#endif
    for (; count >= 8; bytes += 8, count -= 8) crc = addWordPortable(crc, loadWord(bytes));
    for (; count > 0; ++bytes, --count) crc = addByte(crc, *bytes);
    return ~crc;
  }
};

}  // namespace

uint32_t crc32c(ConstBytes bytes) {
  return multiversion<Crc32c>(bytes.data(), bytes.size());
}

}  // namespace hipress
