// SPDX-License-Identifier: Apache-2.0
//
// Selects the smallest of many keys without storing all keys: it takes a limit from a sample of the keys, and
// a loop keeps the keys up to the limit, with their positions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/element/multiversion.h"
#include "core/ops/cpu/compact.h"
#include "core/ops/cpu/filter_outputs.h"
#include "core/ops/cpu/radix_select.h"
#include "core/ops/cpu/scratch.h"

#if HIPRESS_X86
#include <immintrin.h>
#endif

namespace hipress::ops {

/// The limit that no key exceeds.
template <typename Key>
inline constexpr Key kNoLimit = static_cast<Key>(~Key{0});

/// A limit that the `first` smallest of `count` keys hardly ever exceed, and that few other keys stay below.
/// The greatest key if a sample would not pay. keyAt(i) is key number i.
template <typename Key, typename KeyAt>
Key likelyLimit(size_t count, size_t first, const KeyAt& keyAt) {
  constexpr size_t sampledFrom = size_t{1} << 11;
  constexpr size_t uncachedFrom = size_t{1} << 16;  // elements that a core's cache may not hold
  constexpr size_t leastSamples = size_t{1} << 14;
  if (first == 0) return Key{0};
  if (count < sampledFrom || first > count / 2) return kNoLimit<Key>;
  // The sample should have 64 of the wanted keys. It reads at most one element in a line of uncached memory,
  // and at most one in 16 of cached elements.
  const size_t wanted = std::max(leastSamples, 64 * (count / first));
  const size_t leastStretch = count < uncachedFrom ? 16 : 64;
  const size_t stretch = std::max(leastStretch, count / wanted);
  const size_t samples = count / stretch;
  Scratch scratch;
  Key* const sample = scratch.take<Key>(samples);
  for (size_t i = 0; i < samples; ++i) {
    // The place in each stretch is irregular, because a tensor's values often repeat at equal distances.
    const size_t place = (i * 0x9E3779B97F4A7C15u >> 32) % stretch;
    sample[i] = keyAt(i * stretch + place);
  }
  // Four standard deviations above the expected rank of the last wanted key in the sample.
  const double rank = static_cast<double>(first) * static_cast<double>(samples) / static_cast<double>(count);
  const auto last = static_cast<size_t>(rank + 4 * std::sqrt(rank) + 1);
  return last < samples ? sample[detail::selectPosition(sample, samples, last, scratch)] : kNoLimit<Key>;
}

namespace detail {

/// How many keys a scan keeps: in most groups none, or some in most groups.
enum class Kept : uint8_t { kFew, kMany };

/// Handles the first elements that fill whole groups, and returns their number. Adds to `found`.
template <IsaLevel level>
struct GroupsUpTo {
  template <Kept share, typename Key>
  static size_t run(const Key* keys, size_t count, Key limit, int32_t first, int32_t* positions, Key* kept,
                    size_t& found) {
    constexpr size_t step = 32;
    size_t i = 0;
    for (; i + step <= count; i += step) {
      if constexpr (share == Kept::kFew) {
        Key least = keys[i];
        for (size_t j = 1; j < step; ++j) least = std::min(least, keys[i + j]);
        if (least > limit) continue;
      }
      for (size_t j = i; j < i + step; ++j) {
        positions[found] = first + static_cast<int32_t>(j);
        kept[found] = keys[j];
        found += keys[j] <= limit ? 1 : 0;
      }
    }
    return i;
  }
};

#if HIPRESS_X86
template <>
struct GroupsUpTo<IsaLevel::kV3> {
  template <Kept share>
  HIPRESS_TARGET_V3 static size_t run(const uint32_t* keys, size_t count, uint32_t limit, int32_t first,
                                      int32_t* positions, uint32_t* kept, size_t& found) {
    constexpr size_t step = share == Kept::kFew ? 32 : 8;
    const __m256i most = _mm256_set1_epi32(static_cast<int32_t>(limit));
    size_t i = 0;
    for (; i + step <= count; i += step) {
      const auto* const group = reinterpret_cast<const __m256i_u*>(keys + i);
      if constexpr (share == Kept::kFew) {
        const __m256i low = _mm256_min_epu32(_mm256_loadu_si256(group), _mm256_loadu_si256(group + 1));
        const __m256i high = _mm256_min_epu32(_mm256_loadu_si256(group + 2), _mm256_loadu_si256(group + 3));
        if (upTo(_mm256_min_epu32(low, high), most) == 0) continue;
      }
      for (size_t part = 0; part < step / 8; ++part) {
        const __m256i eight = _mm256_loadu_si256(group + part);
        const uint8_t mask = upTo(eight, most);
        const __m256i places =
            _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(kPlacesOfSetBits[mask])));
        const __m256i at =
            _mm256_add_epi32(_mm256_set1_epi32(first + static_cast<int32_t>(i + 8 * part)), places);
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(positions + found), at);
        _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(kept + found),
                            _mm256_permutevar8x32_epi32(eight, places));
        found += static_cast<size_t>(std::popcount(mask));
      }
    }
    return i;
  }
  template <Kept share>
  static size_t run(const uint64_t* keys, size_t count, uint64_t limit, int32_t first, int32_t* positions,
                    uint64_t* kept, size_t& found) {
    return GroupsUpTo<IsaLevel::kGeneric>::run<share>(keys, count, limit, first, positions, kept, found);
  }

 private:
  /// A bit for each key that is not above the limit.
  HIPRESS_TARGET_V3 static uint8_t upTo(__m256i keys, __m256i limit) {
    const __m256i kept = _mm256_cmpeq_epi32(_mm256_min_epu32(keys, limit), keys);
    return static_cast<uint8_t>(_mm256_movemask_ps(_mm256_castsi256_ps(kept)));
  }
};

template <>
struct GroupsUpTo<IsaLevel::kV4> {
  template <Kept share>
  HIPRESS_TARGET_V4 static size_t run(const uint32_t* keys, size_t count, uint32_t limit, int32_t first,
                                      int32_t* positions, uint32_t* kept, size_t& found) {
    constexpr size_t step = share == Kept::kFew ? 64 : 16;
    const __m512i most = _mm512_set1_epi32(static_cast<int32_t>(limit));
    size_t i = 0;
    for (; i + step <= count; i += step) {
      const uint32_t* const group = keys + i;
      if constexpr (share == Kept::kFew) {
        const __m512i low =
            _mm512_maskz_min_epu32(0xffff, _mm512_loadu_si512(group), _mm512_loadu_si512(group + 16));
        const __m512i high =
            _mm512_maskz_min_epu32(0xffff, _mm512_loadu_si512(group + 32), _mm512_loadu_si512(group + 48));
        if (_mm512_cmple_epu32_mask(_mm512_maskz_min_epu32(0xffff, low, high), most) == 0) continue;
      }
      for (size_t part = 0; part < step; part += 16) {
        const __m512i sixteen = _mm512_loadu_si512(group + part);
        const __mmask16 mask = _mm512_cmple_epu32_mask(sixteen, most);
        const __m512i steps = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m512i at = _mm512_add_epi32(_mm512_set1_epi32(first + static_cast<int32_t>(i + part)), steps);
        _mm512_storeu_si512(positions + found, _mm512_maskz_compress_epi32(mask, at));
        _mm512_storeu_si512(kept + found, _mm512_maskz_compress_epi32(mask, sixteen));
        found += static_cast<size_t>(std::popcount(mask));
      }
    }
    return i;
  }
  template <Kept share>
  static size_t run(const uint64_t* keys, size_t count, uint64_t limit, int32_t first, int32_t* positions,
                    uint64_t* kept, size_t& found) {
    return GroupsUpTo<IsaLevel::kGeneric>::run<share>(keys, count, limit, first, positions, kept, found);
  }
};
#endif

/// Writes first + i and keys[i] for each i < count with keys[i] <= limit, in order, and returns their number.
/// The output needs room for count + 16 elements. Elements behind the result are overwritten.
template <IsaLevel level, Kept share, typename Key>
size_t compactUpTo(const Key* keys, size_t count, Key limit, int32_t first, int32_t* positions, Key* kept) {
  size_t found = 0;
  for (size_t i = GroupsUpTo<level>::template run<share>(keys, count, limit, first, positions, kept, found);
       i < count; ++i) {
    positions[found] = first + static_cast<int32_t>(i);
    kept[found] = keys[i];
    found += keys[i] <= limit ? 1 : 0;
  }
  return found;
}

}  // namespace detail

/// The keys up to a limit, with their positions. Threads that share a loop find them, each thread in its own
/// chunk. Without a limit no positions are stored.
template <typename Key>
class Candidates {
 public:
  class Part {
   public:
    Part(Appender<int32_t>& positions, Appender<Key>& keys, Key limit)
        : positions_(positions), keys_(keys), limit_(limit) {}

    /// Adds `count` keys; the first one has the position `first`.
    template <IsaLevel level>
    void add(const Key* keys, size_t count, size_t first) {
      Key* const kept = keys_.reserve(count + 16);
      if (limit_ == kNoLimit<Key>) {
        std::memcpy(kept, keys, count * sizeof(Key));
        return keys_.added(count);
      }
      int32_t* const positions = positions_.reserve(count + 16);
      const size_t found = detail::compactUpTo<level, detail::Kept::kFew>(
          keys, count, limit_, static_cast<int32_t>(first), positions, kept);
      positions_.added(found);
      keys_.added(found);
    }

   private:
    Appender<int32_t>& positions_;
    Appender<Key>& keys_;
    Key limit_;
  };

  /// Drops all candidates. A loop in `chunks` follows, each of at most `each` keys.
  void begin(size_t chunks, size_t each, Key limit) {
    limit_ = limit;
    positions_.resize(chunks, each);
    keys_.resize(chunks, each);
    if (limit == kNoLimit<Key> && chunks == 1) keys_[0].reserve(each + 16);
  }

  Part operator[](size_t chunk) { return {positions_[chunk], keys_[chunk], limit_}; }

  /// The keys of all chunks in order. The functions below need this call.
  const Key* gathered(Scratch& scratch) {
    if (limit_ != kNoLimit<Key>) at_ = positions_.gathered(scratch, size_);
    return keys_.gathered(scratch, size_);
  }

  size_t size() const { return size_; }

  /// Turns numbers of candidates into positions in the vector.
  void toPositions(uint32_t* numbers, size_t count) const {
    if (limit_ == kNoLimit<Key>) return;
    for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<uint32_t>(at_[numbers[i]]);
  }

 private:
  FilterOutputs<int32_t> positions_;
  FilterOutputs<Key> keys_;
  Key limit_ = 0;
  const int32_t* at_ = nullptr;
  size_t size_ = 0;
};

}  // namespace hipress::ops
