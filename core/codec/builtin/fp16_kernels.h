// SPDX-License-Identifier: Apache-2.0
//
// The kernels of `fp16`.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/element/half.h"
#include "core/ops/cuda/contributions.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda::fp16 {

inline constexpr uint32_t kWrongSize = 1;

using Half = One<uint16_t>;
using Value = One<float>;

struct Encode {
  const float* values;
  float scale;
  uint16_t* message;
  size_t count;
  uint32_t* messageBytes;
  uint32_t* error;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.rows<Value, Half>(
          tileCount(tile, count),
          [&](unsigned j, auto some, Value* given) {
            loadRow(some, values + tile + j, given, &Value::value);
          },
          [&](unsigned, const Value& given, Half& made) { made.value = floatToHalf(scale * given.value); },
          [&](unsigned j, auto some, const Half* made) {
            storeRow(some, message + tile + j, made, &Half::value);
          });
    }
    if (block.index != 0) return;
    block.once([&] {
      *messageBytes = static_cast<uint32_t>(2 * count);
      *error = 0;
    });
  }
};

template <bool kAccumulate>
struct Decode {
  const uint16_t* payload;
  const uint32_t* payloadBytes;
  size_t capacity;
  float* output;
  size_t count;
  uint32_t* error;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    const size_t bytes = payloadBytes != nullptr ? load(payloadBytes) : capacity;
    const bool lost = bytes == 0;  // a failed encode sends 0 bytes, which decode to NaN
    const bool fits = bytes == 2 * count && bytes <= capacity;
    if (block.index == 0) block.once([&] { *error = fits || lost ? 0u : kWrongSize; });
    if (!fits && !lost) return;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.rows<Given, Value>(
          tileCount(tile, count),
          [&](unsigned j, auto some, Given* given) {
            if (!lost) loadRow(some, payload + tile + j, given, &Given::half);
            if (kAccumulate) readRow(some, output + tile + j, given, &Given::old);
          },
          [&](unsigned, const Given& given, Value& made) {
            const float value = lost ? static_cast<float>(NAN) : halfToFloat(given.half);
            made.value = kAccumulate ? given.old + value : value;
          },
          [&](unsigned j, auto some, const Value* made) {
            storeRow(some, output + tile + j, made, &Value::value);
          });
    }
  }

 private:
  struct Given {
    uint16_t half;
    float old;
  };
};

/// Adds messages and values.
struct Sum {
  Contributions given;
  size_t capacity;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    HIPRESS_SHARED float sums[kTile];
    for (size_t tile = block.index * kTile; tile < given.count; tile += block.count * kTile) {
      const TileSum sum{given, tile, tileCount(tile, given.count), sums};
      sum.begin(block);
      for (unsigned k = 0; k < given.number; ++k) addOne(block, sum, k);
      sum.end(block);
    }
  }

 private:
  HIPRESS_DEVICE void addOne(const Block& block, const TileSum& sum, unsigned k) const {
    const Contribution& one = given.all[k];
    if (one.values != nullptr) return sum.add(block, k, one.values);
    const size_t bytes = load(one.payloadBytes);
    const bool lost = bytes == 0;
    const bool fits = bytes == 2 * given.count && bytes <= capacity;
    if (block.index == 0 && sum.tile == 0) block.once([&] { *one.error = fits || lost ? 0u : kWrongSize; });
    if (!fits) return sum.addEverywhere(block, k, lost ? static_cast<float>(NAN) : 0.0f);
    const auto* const payload = reinterpret_cast<const uint16_t*>(one.payload) + sum.tile;
    block.rows<Half, None>(
        sum.count,
        [&](unsigned j, auto some, Half* loaded) { loadRow(some, payload + j, loaded, &Half::value); },
        [&](unsigned j, const Half& loaded, None) { sum.put(k, j, halfToFloat(loaded.value)); }, Nowhere{});
  }
};

HIPRESS_KERNEL(fp16_encode, Encode)
HIPRESS_KERNEL(fp16_sum, Sum)
HIPRESS_KERNEL(fp16_decode, Decode<false>)
HIPRESS_KERNEL(fp16_decode_accumulate, Decode<true>)

}  // namespace hipress::cuda::fp16
