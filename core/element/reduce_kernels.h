// SPDX-License-Identifier: Apache-2.0
//
// The loops of reduceInOrder(). A loop reads up to kSideBySide contributions side by side. So each
// contribution and the output pass the memory bus once, and the processor prefetches all of them at the same
// time. (One after the other, through a buffer in the first cache level, eight contributions took twice as
// long.) More contributions are chained through such a buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/element/folds.h"
#include "core/element/half_kernels.h"
#include "core/element/multiversion.h"
#include "core/element/unaligned.h"

namespace hipress {

inline constexpr size_t kSideBySide = 8;
inline constexpr size_t kChainBlock = 2048;

#if HIPRESS_X86
HIPRESS_TARGET_V3 inline __m256 loadEightHalves(const void* source, size_t at) {
  const auto* halves = static_cast<const Unaligned<uint16_t>*>(source) + at;
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i_u*>(halves)));
}

/// Merges eight float16 elements of all contributions. By hand, because GCC does not vectorise with F16C.
HIPRESS_TARGET_V3 inline void mergeEightHalves(const void* const* contributions, size_t contributionCount,
                                               size_t at, float factor, Unaligned<uint16_t>* output) {
  __m256 sum = loadEightHalves(contributions[0], at);
  for (size_t rank = 1; rank < contributionCount; ++rank) {
    sum = _mm256_add_ps(sum, loadEightHalves(contributions[rank], at));
  }
  sum = _mm256_mul_ps(sum, _mm256_set1_ps(factor));
  _mm_storeu_si128(reinterpret_cast<__m128i_u*>(output + at),
                   _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

template <typename Policy>
struct Reduce {
  using Element = typename Policy::Element;
  using Sum = typename Policy::Sum;
  using Source = const Unaligned<Element>*;

  template <IsaLevel level>
  struct Kernel {
    /// Merges one element of `streams` contributions, in order.
    template <size_t streams>
    static Sum merge(Sum sum, const Source* sources, size_t i) {
#pragma GCC unroll 8
      for (size_t k = 0; k < streams; ++k) sum = Policy::combine(sum, Policy::load(sources[k][i].value));
      return sum;
    }

    // A loop may write over a contribution, because it reads each element before it writes it. ivdep promises
    // exactly this.

    template <size_t streams>
    static void direct(const Policy& policy, const Source* from, size_t count, Unaligned<Element>* output) {
      Source sources[streams];
      std::copy_n(from, streams, sources);
#pragma GCC ivdep
      for (size_t i = 0; i < count; ++i) {
        output[i].value =
            policy.finish(merge<streams - 1>(Policy::load(sources[0][i].value), sources + 1, i));
      }
    }

    /// Merges one block of any number of contributions.
    static void chained(const Policy& policy, const void* const* contributions, size_t contributionCount,
                        size_t begin, size_t length, Unaligned<Element>* output) {
      alignas(64) Sum sums[kChainBlock];
      Source sources[kSideBySide];
      const auto take = [&](size_t first, size_t number) {
        for (size_t k = 0; k < number; ++k)
          sources[k] = static_cast<Source>(contributions[first + k]) + begin;
      };
      take(0, kSideBySide);
#pragma GCC ivdep
      for (size_t i = 0; i < length; ++i) {
        sums[i] = merge<kSideBySide - 1>(Policy::load(sources[0][i].value), sources + 1, i);
      }
      size_t rank = kSideBySide;
      for (; rank + kSideBySide <= contributionCount; rank += kSideBySide) {
        take(rank, kSideBySide);
#pragma GCC ivdep
        for (size_t i = 0; i < length; ++i) sums[i] = merge<kSideBySide>(sums[i], sources, i);
      }
      for (; rank < contributionCount; ++rank) {
        take(rank, 1);
#pragma GCC ivdep
        for (size_t i = 0; i < length; ++i) sums[i] = merge<1>(sums[i], sources, i);
      }
#pragma GCC ivdep
      for (size_t i = 0; i < length; ++i) output[begin + i].value = policy.finish(sums[i]);
    }

    static void run(Policy policy, const void* const* contributions, size_t contributionCount, size_t count,
                    void* destination) {
      auto* output = static_cast<Unaligned<Element>*>(destination);
      size_t done = 0;
#if HIPRESS_X86
      if constexpr (std::is_same_v<Policy, HalfFold<Float16, Plus>> && level >= IsaLevel::kV3) {
        for (; done + 8 <= count; done += 8) {
          mergeEightHalves(contributions, contributionCount, done, policy.factor, output);
        }
      }
#endif
      if (contributionCount > kSideBySide) {
        for (; done < count; done += kChainBlock) {
          chained(policy, contributions, contributionCount, done, std::min(kChainBlock, count - done),
                  output);
        }
        return;
      }
      Source sources[kSideBySide];
      for (size_t k = 0; k < contributionCount; ++k)
        sources[k] = static_cast<Source>(contributions[k]) + done;
      switch (contributionCount) {
        case 1:
          return direct<1>(policy, sources, count - done, output + done);
        case 2:
          return direct<2>(policy, sources, count - done, output + done);
        case 3:
          return direct<3>(policy, sources, count - done, output + done);
        case 4:
          return direct<4>(policy, sources, count - done, output + done);
        case 5:
          return direct<5>(policy, sources, count - done, output + done);
        case 6:
          return direct<6>(policy, sources, count - done, output + done);
        case 7:
          return direct<7>(policy, sources, count - done, output + done);
        default:
          return direct<8>(policy, sources, count - done, output + done);
      }
    }
  };
};

}  // namespace hipress
