// SPDX-License-Identifier: Apache-2.0
//
// Kernels over the elements of tensors; execution.h says how to write them. One thread computes each element,
// in the host's order and with the host's rounding, so the bits are equal to the host's. (Only the bits of a
// NaN may differ, because GPUs have a single NaN.) All addresses are multiples of the element size.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/element/folds.h"
#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/rows.h"

namespace hipress::cuda {

/// The most contributions of one kernel. Several kernels add up more.
inline constexpr size_t kMostContributions = 32;

/// A part of a merge, or all of it; `Policy` is a fold of folds.h. `output` may be one of the contributions,
/// because one thread reads an element before it writes it.
template <typename Policy>
struct Reduce {
  using Element = typename Policy::Element;
  using Sum = typename Policy::Sum;

  Policy policy;
  const Element* contributions[kMostContributions];
  unsigned number;  ///< Number of contributions, at least 1.
  size_t count;
  const Sum* before;  ///< Result of the contributions before these; nullptr: these are the first.
  Sum* sums;          ///< The result with these; nullptr: they are the last, `output` is written.
  Element* output;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count), [&](unsigned j) { merge(tile + j); });
    }
  }

 private:
  HIPRESS_DEVICE void merge(size_t i) const {
    Sum sum = Policy::load(contributions[0][i]);
    if (before != nullptr) sum = Policy::combine(before[i], sum);
    for (unsigned k = 1; k < number; ++k) sum = Policy::combine(sum, Policy::load(contributions[k][i]));
    if (sums != nullptr) {
      sums[i] = sum;
    } else {
      output[i] = policy.finish(sum);
    }
  }
};

/// sum := factor * values, or sum += factor * values.
template <typename Type, bool kAccumulate>
struct Add {
  struct Given {
    typename Type::Element value;
    float old;
  };

  const typename Type::Element* values;
  float factor;
  float* sum;
  size_t count;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.rows<Given, One<float>>(
          tileCount(tile, count),
          [&](unsigned j, auto some, Given* given) {
            loadRow(some, values + tile + j, given, &Given::value);
            if (kAccumulate) readRow(some, sum + tile + j, given, &Given::old);
          },
          [&](unsigned, const Given& given, One<float>& made) {
            const float scaled = factor * Type::widen(given.value);
            made.value = kAccumulate ? given.old + scaled : scaled;
          },
          [&](unsigned j, auto some, const One<float>* made) {
            storeRow(some, sum + tile + j, made, &One<float>::value);
          });
    }
  }
};

/// output := values, rounded. `output` may be `values` itself only if both have the same type.
template <typename Type>
struct Narrow {
  using Narrowed = One<typename Type::Element>;

  const float* values;
  typename Type::Element* output;
  size_t count;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.rows<One<float>, Narrowed>(
          tileCount(tile, count),
          [&](unsigned j, auto some, One<float>* given) {
            readRow(some, values + tile + j, given, &One<float>::value);
          },
          [&](unsigned, const One<float>& given, Narrowed& made) { made.value = Type::narrow(given.value); },
          [&](unsigned j, auto some, const Narrowed* made) {
            storeRow(some, output + tile + j, made, &Narrowed::value);
          });
    }
  }
};

/// *flag := 1 if a value is NaN or infinite, and otherwise unchanged.
template <typename Type>
struct FlagNotFinite {
  const typename Type::Element* values;
  size_t count;
  uint32_t* flag;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count), [&](unsigned j) {
        if (!Type::isFinite(load(values + tile + j))) *flag = 1u;  // every thread writes the same value
      });
    }
  }
};

/// The most spans of values of one kernel, and the thread blocks of each.
inline constexpr unsigned kMostSpans = 64;
inline constexpr unsigned kSpanBlocks = 16;

/// values := values * (*now / *before), unless the two are equal.
struct Rescale {
  struct Span {
    float* values;
    size_t count;
  };
  Span spans[kMostSpans];
  const float* now;
  const float* before;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    if (*now == *before) return;
    const float factor = *now / *before;
    const Span& own = spans[block.index / kSpanBlocks];
    for (size_t tile = block.index % kSpanBlocks * kTile; tile < own.count; tile += kSpanBlocks * kTile)
      block.elements(tileCount(tile, own.count), [&](unsigned j) { own.values[tile + j] *= factor; });
  }
};

/// to := from.
struct CopyBytes {
  struct alignas(16) Wide {
    uint64_t words[2];
  };
  static constexpr size_t kEach = kTile * sizeof(Wide);  ///< Bytes that a block copies at a time.

  const uint8_t* from;
  uint8_t* to;
  size_t bytes;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    const bool isWide =
        (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % sizeof(Wide) == 0;
    const size_t wide = isWide ? bytes / sizeof(Wide) : 0;
    const auto* const source = reinterpret_cast<const Wide*>(from);
    for (size_t tile = block.index * kTile; tile < wide; tile += block.count * kTile)
      block.elements(tileCount(tile, wide),
                     [&](unsigned j) { reinterpret_cast<Wide*>(to)[tile + j] = source[tile + j]; });
    const size_t first = wide * sizeof(Wide);
    for (size_t tile = first + block.index * kTile; tile < bytes; tile += block.count * kTile)
      block.elements(tileCount(tile, bytes), [&](unsigned j) { to[tile + j] = from[tile + j]; });
  }
};

/// to := values, if the word is not 0.
struct CopyUnlessZero {
  const uint32_t* word;
  const float* values;
  float* to;
  size_t count;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    if (*word == 0) return;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile)
      block.elements(tileCount(tile, count), [&](unsigned j) { to[tile + j] = values[tile + j]; });
  }
};

}  // namespace hipress::cuda
