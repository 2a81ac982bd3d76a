// SPDX-License-Identifier: Apache-2.0
//
// What one kernel adds of several ranks: messages of one codec, and values. An owner of a slot so reads each
// message once and writes the sum once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/execution.h"
#include "core/ops/cuda/rows.h"

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
  const float* before;  ///< The sum of earlier ones; nullptr: these are the first.
  float* output;  ///< May be the values of a contribution: one thread reads an element before it writes it.
  size_t count;
  unsigned number;
  float factor;  ///< Of the whole sum.
};

/// The part of a call's list that begins at `first`. Parts but the last one write their sums to `partial`:
/// the output may have the values of a later contribution. `Sum`: CudaSum.
template <typename Sum>
Contributions contributionsFrom(const Sum& call, size_t first, float* partial) {
  const size_t some = call.number - first < kMostSummed ? call.number - first : kMostSummed;
  const bool last = first + some == call.number;
  Contributions part{{},         first > 0 ? partial : nullptr, last ? call.output : partial,
                     call.count, static_cast<unsigned>(some),   last ? call.factor : 1.0f};
  for (size_t k = 0; k < some; ++k) part.all[k] = call.contributions[first + k];
  return part;
}

/// One tile's sums in the shared memory `sums`. Each thread has elements of its own, those of Block::rows(),
/// so none waits for others.
struct TileSum {
  const Contributions& given;
  size_t tile;
  unsigned count;
  float* sums;

  HIPRESS_DEVICE void begin(const Block& block) const {
    if (given.before == nullptr) return;
    each(block, given.before, [&](unsigned j, float value) { sums[placeOf(j)] = value; });
  }
  HIPRESS_DEVICE void add(const Block& block, unsigned k, const float* values) const {
    each(block, values, [&](unsigned j, float value) { put(k, j, value); });
  }
  /// The same number for all elements.
  HIPRESS_DEVICE void addEverywhere(const Block& block, unsigned k, float value) const {
    block.rows<None, None>(count, Nowhere{}, [&](unsigned j, None, None) { put(k, j, value); }, Nowhere{});
  }
  HIPRESS_DEVICE void put(unsigned k, unsigned j, float value) const {
    float& sum = sums[placeOf(j)];
    sum = k == 0 && given.before == nullptr ? value : sum + value;
  }
  HIPRESS_DEVICE void end(const Block& block) const {
    using Value = One<float>;
    block.rows<None, Value>(
        count, Nowhere{},
        [&](unsigned j, None, Value& made) { made.value = sums[placeOf(j)] * given.factor; },
        [&](unsigned j, auto some, const Value* made) {
          storeRow(some, given.output + tile + j, made, &Value::value);
        });
  }

 private:
  /// The threads' successive elements lie in different banks.
  HIPRESS_DEVICE static unsigned placeOf(unsigned j) { return j % kRow * kThreads + j / kRow; }

  /// The values may be the output, too.
  template <typename Body>
  HIPRESS_DEVICE void each(const Block& block, const float* values, Body body) const {
    using Value = One<float>;
    block.rows<Value, None>(
        count,
        [&](unsigned j, auto some, Value* loaded) {
          readRow(some, values + tile + j, loaded, &Value::value);
        },
        [&](unsigned j, const Value& loaded, None) { body(j, loaded.value); }, Nowhere{});
  }
};

}  // namespace hipress::cuda
