// SPDX-License-Identifier: Apache-2.0
//
// What one kernel adds of several ranks: messages of one codec, and values. An owner of a slot so reads each
// message once and writes the sum once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// The most contributions of one kernel. Several kernels add up more.
inline constexpr size_t kMostSummed = 32;

/// Values, or a message. All pointers are the device's.
struct Contribution {
  const float* values;           ///< nullptr: it is a message.
  const uint8_t* payload;        ///< Aligned to 4 bytes.
  const uint32_t* payloadBytes;  ///< The size of the payload in bytes.
  uint32_t* error;               ///< 0, or a number for refusal(): the payload is invalid, and adds nothing.
};

/// The contributions of one kernel.
struct Contributions {
  Contribution all[kMostSummed];
  unsigned number;
  const float* before;  ///< The sum of earlier ones; nullptr: these are the first.
  float factor;         ///< Of the whole sum.
  float* output;  ///< May be the values of a contribution: one thread reads an element before it writes it.
  size_t count;
};

/// The part of a call's list that begins at `first`. Parts but the last one write their sums to `partial`:
/// the output may have the values of a later contribution. `Sum`: CudaSum.
template <typename Sum>
Contributions contributionsFrom(const Sum& call, size_t first, float* partial) {
  const size_t some = call.number - first < kMostSummed ? call.number - first : kMostSummed;
  const bool last = first + some == call.number;
  Contributions part{{},
                     static_cast<unsigned>(some),
                     first > 0 ? partial : nullptr,
                     last ? call.factor : 1.0f,
                     last ? call.output : partial,
                     call.count};
  for (size_t k = 0; k < some; ++k) part.all[k] = call.contributions[first + k];
  return part;
}

/// One tile's sums in the shared memory `sums`. Each thread has elements of its own, so none waits for
/// others.
struct TileSum {
  const Contributions& given;
  size_t tile;
  unsigned count;
  float* sums;

  HIPRESS_DEVICE void begin(const Block& block) const {
    if (given.before != nullptr) block.elements(count, [&](unsigned j) { sums[j] = given.before[tile + j]; });
  }
  HIPRESS_DEVICE void add(const Block& block, unsigned k, const float* values) const {
    block.elements(count, [&](unsigned j) { put(k, j, values[tile + j]); });
  }
  /// The same number for all elements.
  HIPRESS_DEVICE void addEverywhere(const Block& block, unsigned k, float value) const {
    block.elements(count, [&](unsigned j) { put(k, j, value); });
  }
  HIPRESS_DEVICE void put(unsigned k, unsigned j, float value) const {
    sums[j] = k == 0 && given.before == nullptr ? value : sums[j] + value;
  }
  HIPRESS_DEVICE void end(const Block& block) const {
    block.elements(count, [&](unsigned j) { given.output[tile + j] = sums[j] * given.factor; });
  }
};

}  // namespace hipress::cuda
