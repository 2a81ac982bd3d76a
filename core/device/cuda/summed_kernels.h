// SPDX-License-Identifier: Apache-2.0
//
// Kernels between the codec's own ones in a step of a sum of encoded values (codec/summed_step.h).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/ops/cuda/execution.h"

namespace hipress::cuda {

/// statistics := value, unless the codec could make them.
struct Poison {
  const uint32_t* bytes;  ///< As the codec has written it.
  uint32_t expected;
  float value;
  float* statistics;
  size_t count;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    if (*bytes == expected) return;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile)
      block.elements(tileCount(tile, count), [&](unsigned j) { statistics[tile + j] = value; });
  }
};

/// Adds the number of values that are not finite to *found.
struct CountNotFinite {
  const float* values;
  size_t count;
  uint32_t* found;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    uint32_t own = 0;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count), [&](unsigned j) {
        const float value = load(values + tile + j);
        own += value - value == 0.0f ? 0u : 1u;
      });
    }
    if (own != 0) addTo(found, own);
  }
};

/// Copies levels if the codec could make them, or writes zeros. Behind them comes the number of ranks that
/// could not encode, here 0 or 1.
struct SettleLevels {
  const uint32_t* notFinite;
  const uint32_t* bytes;
  uint32_t expected;
  int32_t most;
  const int8_t* from;
  int8_t* to;
  size_t count;
  uint32_t* tooGreat;  ///< Counts the levels greater than `most`.

  HIPRESS_DEVICE void operator()(const Block& block) const {
    const bool encoded = *notFinite == 0 && *bytes == expected;
    if (block.index == 0) block.once([&] { to[count] = encoded ? 0 : 1; });
    uint32_t own = 0;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count), [&](unsigned j) {
        const int32_t level = encoded ? load(from + tile + j) : 0;
        own += level > most || level < -most ? 1u : 0u;
        to[tile + j] = static_cast<int8_t>(level);
      });
    }
    if (own != 0) addTo(tooGreat, own);
  }
};

/// *keepsOld := whether some rank could not encode, or none has a gradient. Then the result is NaN, or zeros,
/// and a decoding error means nothing. Otherwise a decoding error makes the result `refused`.
struct SettleSum {
  const uint32_t* notFinite;
  const int8_t* failures;
  float* result;
  size_t count;
  uint32_t* decodeError;
  uint32_t* keepsOld;
  const float* gradient;
  uint32_t* verdict;
  float refused;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    const bool decodes = *notFinite == 0 && *failures == 0 && *gradient != 0.0f;
    const bool absent = *gradient == 0.0f;
    // Nobody writes the error where it is read.
    const bool good = decodes && *decodeError == 0;
    const float value = absent ? 0.0f : decodes ? refused : static_cast<float>(NAN);
    if (block.index == 0) {
      block.once([&] {
        *keepsOld = good ? 0u : 1u;
        if (!decodes) *decodeError = 0u;
        if (!good && value != value) *verdict = 1u;
      });
    }
    if (good) return;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile)
      block.elements(tileCount(tile, count), [&](unsigned j) { result[tile + j] = value; });
  }
};

}  // namespace hipress::cuda
