// SPDX-License-Identifier: Apache-2.0
//
// Random words for tiles. A register has one state word of several groups, each in the lower half of a 64-bit
// lane. The products of 32·32 bits need no more, and no instruction reads the garbage in the upper halves.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/element/multiversion.h"
#include "core/ops/philox.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops {

namespace detail {

/// The words of kGroups successive groups.
template <IsaLevel level>
struct PhiloxGroups {
  static constexpr size_t kGroups = 1;
  static void run(const RandomKey& key, uint32_t site, uint64_t group, std::byte* words) {
    const PhiloxWords four = philoxGroup(key, site, group);
    std::memcpy(words, four.word, sizeof(four.word));
  }
};

#if HIPRESS_X86

template <>
struct PhiloxGroups<IsaLevel::kV3> {
  static constexpr size_t kGroups = 8;
  HIPRESS_TARGET_V3 static void run(const RandomKey& key, uint32_t site, uint64_t group, std::byte* words) {
    __m256i c0[2], c1[2], c2[2], c3[2];
    for (int part = 0; part < 2; ++part) {
      // In the order in which the unpack instructions below interleave the groups.
      const __m256i at = _mm256_add_epi64(_mm256_set1_epi64x(static_cast<int64_t>(group + 4 * part)),
                                          _mm256_setr_epi64x(0, 2, 1, 3));
      const __m256i upper = _mm256_and_si256(_mm256_srli_epi64(at, 32), _mm256_set1_epi64x(0xffff));
      c0[part] = at;
      c1[part] = _mm256_or_si256(upper, _mm256_set1_epi64x(site << 16));
      c2[part] = _mm256_set1_epi64x(static_cast<int64_t>(key.step));
      c3[part] = _mm256_set1_epi64x(key.tensor);
    }
    const __m256i m0 = _mm256_set1_epi64x(philox::kMultiplier0);
    const __m256i m1 = _mm256_set1_epi64x(philox::kMultiplier1);
    __m256i k0 = _mm256_set1_epi64x(static_cast<uint32_t>(key.seed));
    __m256i k1 = _mm256_set1_epi64x(static_cast<uint32_t>(key.seed >> 32));
    for (int round = 0; round < philox::kRounds; ++round) {
      for (int part = 0; part < 2; ++part) {
        const __m256i p0 = _mm256_mul_epu32(m0, c0[part]);
        const __m256i p1 = _mm256_mul_epu32(m1, c2[part]);
        c0[part] = _mm256_xor_si256(_mm256_srli_epi64(p1, 32), _mm256_xor_si256(c1[part], k0));
        c2[part] = _mm256_xor_si256(_mm256_srli_epi64(p0, 32), _mm256_xor_si256(c3[part], k1));
        c1[part] = p1;
        c3[part] = p0;
      }
      k0 = _mm256_add_epi32(k0, _mm256_set1_epi64x(philox::kWeyl0));
      k1 = _mm256_add_epi32(k1, _mm256_set1_epi64x(philox::kWeyl1));
    }
    for (int part = 0; part < 2; ++part, words += 64) {
      const __m256i low = _mm256_blend_epi32(c0[part], _mm256_slli_epi64(c1[part], 32), 0xaa);
      const __m256i high = _mm256_blend_epi32(c2[part], _mm256_slli_epi64(c3[part], 32), 0xaa);
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(words), _mm256_unpacklo_epi64(low, high));
      _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(words + 32), _mm256_unpackhi_epi64(low, high));
    }
  }
};

template <>
struct PhiloxGroups<IsaLevel::kV4> {
  static constexpr size_t kGroups = 32;
  HIPRESS_TARGET_V4 static void run(const RandomKey& key, uint32_t site, uint64_t group, std::byte* words) {
    constexpr int kParts = 4;  // enough to hide the latency of the multiplications
    if (group >> 32 != (group + kGroups - 1) >> 32) {
      for (size_t i = 0; i < kGroups; ++i, words += sizeof(PhiloxWords))
        PhiloxGroups<IsaLevel::kGeneric>::run(key, site, group + i, words);
      return;
    }
    // The groups' counters differ only in their first words: half of the first two rounds is equal for all.
    uint32_t k0 = static_cast<uint32_t>(key.seed);
    uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
    const uint32_t upper = (static_cast<uint32_t>(group >> 32) & 0xffffu) | (site << 16);
    const uint64_t first = static_cast<uint64_t>(philox::kMultiplier1) * static_cast<uint32_t>(key.step);
    const auto c0Second = static_cast<uint32_t>(first >> 32) ^ upper ^ k0;
    const uint64_t second = static_cast<uint64_t>(philox::kMultiplier0) * c0Second;
    const uint32_t k0Second = k0 + philox::kWeyl0;
    const uint32_t k1Second = k1 + philox::kWeyl1;
    const __m512i m0 = _mm512_set1_epi64(philox::kMultiplier0);
    const __m512i m1 = _mm512_set1_epi64(philox::kMultiplier1);
    const __m512i ofFirst = _mm512_set1_epi64(key.tensor ^ k1);
    const __m512i ofSecond = _mm512_set1_epi64(static_cast<uint32_t>(first) ^ k0Second);
    const __m512i andSecond = _mm512_set1_epi64(static_cast<uint32_t>(second >> 32) ^ k1Second);
    __m512i c0[kParts], c1[kParts], c2[kParts], c3[kParts];
    for (int part = 0; part < kParts; ++part) {
      // In the order in which the unpack instructions below interleave the groups.
      const __m512i at = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(group + 8 * part)),
                                          _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
      const __m512i p0 = _mm512_maskz_mul_epu32(0xff, m0, at);
      const __m512i p1 =
          _mm512_maskz_mul_epu32(0xff, m1, _mm512_xor_si512(_mm512_maskz_srli_epi64(0xff, p0, 32), ofFirst));
      c0[part] = _mm512_xor_si512(_mm512_maskz_srli_epi64(0xff, p1, 32), ofSecond);
      c1[part] = p1;
      c2[part] = _mm512_xor_si512(p0, andSecond);
      c3[part] = _mm512_set1_epi64(static_cast<uint32_t>(second));
    }
    constexpr int kXorOfThree = 0x96;
    k0 = k0Second;
    k1 = k1Second;
#pragma GCC unroll 8
    for (int round = 2; round < philox::kRounds; ++round) {
      k0 += philox::kWeyl0;
      k1 += philox::kWeyl1;
      const __m512i key0 = _mm512_set1_epi64(k0);
      const __m512i key1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 4
      for (int part = 0; part < kParts; ++part) {
        const __m512i p0 = _mm512_maskz_mul_epu32(0xff, m0, c0[part]);
        const __m512i p1 = _mm512_maskz_mul_epu32(0xff, m1, c2[part]);
        c0[part] =
            _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(0xff, p1, 32), c1[part], key0, kXorOfThree);
        c2[part] =
            _mm512_ternarylogic_epi64(_mm512_maskz_srli_epi64(0xff, p0, 32), c3[part], key1, kXorOfThree);
        c1[part] = p1;
        c3[part] = p0;
      }
    }
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part, words += 128) {
      const __m512i low = _mm512_mask_shuffle_epi32(c0[part], 0xaaaa, c1[part], _MM_PERM_CCAA);
      const __m512i high = _mm512_mask_shuffle_epi32(c2[part], 0xaaaa, c3[part], _MM_PERM_CCAA);
      _mm512_storeu_si512(words, _mm512_maskz_unpacklo_epi64(0xff, low, high));
      _mm512_storeu_si512(words + 64, _mm512_maskz_unpackhi_epi64(0xff, low, high));
    }
  }
};

#endif

}  // namespace detail

/// words[i] = the random number of element first + i of the mapped vector, at call `site`: of 32 bits, or the
/// half that philoxHalfWord() takes.
template <IsaLevel level, typename Word>
void philoxTile(const RandomKey& key, uint32_t site, uint64_t first, size_t count, Word* words) {
  static_assert(std::is_same_v<Word, uint32_t> || std::is_same_v<Word, uint16_t>);
  static_assert(std::endian::native == std::endian::little, "halves of words are read as they lie in memory");
  constexpr size_t shared = sizeof(PhiloxWords) / sizeof(Word);
  constexpr size_t step = shared * detail::PhiloxGroups<level>::kGroups;
  const uint64_t place = key.firstElement + first;
  uint64_t group = place / shared;
  size_t skip = place % shared;
  size_t done = 0;
  // The ends need only a part of a batch, so the batch goes to `beside` first.
  Word beside[step];
  while (done < count) {
    const bool all = skip == 0 && count - done >= step;
    detail::PhiloxGroups<level>::run(key, site, group,
                                     reinterpret_cast<std::byte*>(all ? words + done : beside));
    const size_t here = count - done < step - skip ? count - done : step - skip;
    if (!all) std::memcpy(words + done, beside + skip, here * sizeof(Word));
    done += here;
    skip = 0;
    group += step / shared;
  }
}

}  // namespace hipress::ops
