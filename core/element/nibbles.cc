// SPDX-License-Identifier: Apache-2.0
#include "core/element/nibbles.h"

#include <algorithm>

#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {
namespace {

/// Two int8 beside each other, or two integers of 4 bits that stand in the lower halves of its bytes.
using IntegerPair = uint16_t;

/// Integers of one block: its sums stay in the first cache level.
constexpr size_t kNibbleBlock = 4096;
/// Contributions that one loop reads side by side.
constexpr size_t kStreams = 8;

template <IsaLevel>
struct PackNibbles {
  static bool run(const Unaligned<IntegerPair>* integers, size_t count, uint8_t* packed) {
    const size_t pairs = count / 2;
    IntegerPair differing = 0;
#pragma GCC ivdep
    for (size_t i = 0; i < pairs; ++i) {
      const IntegerPair pair = integers[i].value;
      differing = static_cast<IntegerPair>(differing | (pair ^ (pair << 1)));
      packed[i] = static_cast<uint8_t>((pair & 0x0F) | ((pair >> 4) & 0xF0));
    }
    if (count % 2 != 0) {
      const uint8_t last = reinterpret_cast<const uint8_t*>(integers)[count - 1];
      differing = static_cast<IntegerPair>(differing | (last ^ (last << 1)));
      packed[pairs] = last & 0x0F;
    }
    // An integer fits if its upper five bits are equal.
    return (differing & 0xF0F0) == 0;
  }
};

template <IsaLevel>
struct SumNibbles {
  /// Sums of integers that are 8 too large each, so that no sum is negative or leaves its byte.
  template <size_t streams>
  static void add(const void* const* packed, size_t begin, size_t pairs, IntegerPair* sums) {
    static_assert(streams * 15 <= 255);
    const uint8_t* sources[streams];
    for (size_t k = 0; k < streams; ++k) sources[k] = static_cast<const uint8_t*>(packed[k]) + begin / 2;
#pragma GCC ivdep
    for (size_t i = 0; i < pairs; ++i) {
      uint8_t lower = 0;
      uint8_t upper = 0;
#pragma GCC unroll 8
      for (size_t k = 0; k < streams; ++k) {
        const auto both = static_cast<uint8_t>(sources[k][i] ^ 0x88);
        lower = static_cast<uint8_t>(lower + (both & 0x0F));
        upper = static_cast<uint8_t>(upper + (both >> 4));
      }
      sums[i] = static_cast<IntegerPair>(lower | (upper << 8));
    }
  }

  static void addSome(const void* const* packed, size_t streams, size_t begin, size_t pairs,
                      IntegerPair* sums) {
    switch (streams) {
      case 1:
        return add<1>(packed, begin, pairs, sums);
      case 2:
        return add<2>(packed, begin, pairs, sums);
      case 3:
        return add<3>(packed, begin, pairs, sums);
      case 4:
        return add<4>(packed, begin, pairs, sums);
      case 5:
        return add<5>(packed, begin, pairs, sums);
      case 6:
        return add<6>(packed, begin, pairs, sums);
      case 7:
        return add<7>(packed, begin, pairs, sums);
      default:
        return add<8>(packed, begin, pairs, sums);
    }
  }

  /// A loop may write over integers, because it reads each one before it writes it. ivdep promises exactly
  /// this.
  static void add(const uint8_t* some, const uint8_t* others, uint8_t minus, size_t count, uint8_t* sums) {
#pragma GCC ivdep
    for (size_t i = 0; i < count; ++i) sums[i] = static_cast<uint8_t>(some[i] + others[i] - minus);
  }

  static void run(const void* const* packed, size_t packedCount, const void* const* integers,
                  size_t integersCount, size_t count, uint8_t* output) {
    alignas(64) IntegerPair pairs[kNibbleBlock / 2];
    alignas(64) uint8_t sums[kNibbleBlock];
    const auto* const bytes = reinterpret_cast<const uint8_t*>(pairs);
    const size_t loops = (packedCount + kStreams - 1) / kStreams + integersCount;
    for (size_t begin = 0; begin < count; begin += kNibbleBlock) {
      const size_t length = std::min(kNibbleBlock, count - begin);
      std::fill_n(sums, length, uint8_t{0});
      size_t done = 0;
      // The last loop has read all contributions to the block, so it may write over any of them.
      const auto to = [&] { return ++done == loops ? output + begin : sums; };
      for (size_t first = 0; first < packedCount; first += kStreams) {
        const size_t streams = std::min(kStreams, packedCount - first);
        addSome(packed + first, streams, begin, nibbleBytes(length), pairs);
        add(bytes, sums, static_cast<uint8_t>(8 * streams), length, to());
      }
      for (size_t k = 0; k < integersCount; ++k)
        add(static_cast<const uint8_t*>(integers[k]) + begin, sums, 0, length, to());
    }
  }
};

}  // namespace

bool packNibbles(const void* integers, size_t count, void* packed) {
  return multiversion<PackNibbles>(static_cast<const Unaligned<IntegerPair>*>(integers), count,
                                   static_cast<uint8_t*>(packed));
}

void sumNibbles(std::span<const void* const> packed, std::span<const void* const> integers, size_t count,
                void* output) {
  multiversion<SumNibbles>(packed.data(), packed.size(), integers.data(), integers.size(), count,
                           static_cast<uint8_t*>(output));
}

}  // namespace hipress
