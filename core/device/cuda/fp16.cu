// SPDX-License-Identifier: Apache-2.0
//
// `fp16` on a GPU, a table of functions as those of generated codecs.
#include <cmath>

#include "core/element/half.h"
#include "core/ops/cuda/cuda_codec.h"
#include "core/ops/cuda/execution.h"

namespace hipress::cuda::fp16 {

inline constexpr uint32_t kWrongSize = 1;

struct Encode {
  const float* values;
  float scale;
  uint16_t* message;
  size_t count;
  uint32_t* messageBytes;
  uint32_t* error;

  HIPRESS_DEVICE void operator()(const Block& block) const {
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count),
                     [&](unsigned j) { message[tile + j] = floatToHalf(scale * load(values + tile + j)); });
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
    const bool lost = bytes == 0;  // what a failed encode sends: NaN everywhere
    const bool fits = bytes == 2 * count && bytes <= capacity;
    if (block.index == 0) block.once([&] { *error = fits || lost ? 0u : kWrongSize; });
    if (!fits && !lost) return;
    for (size_t tile = block.index * kTile; tile < count; tile += block.count * kTile) {
      block.elements(tileCount(tile, count), [&](unsigned j) {
        const size_t i = tile + j;
        const float value = lost ? static_cast<float>(NAN) : halfToFloat(load(payload + i));
        output[i] = kAccumulate ? output[i] + value : value;
      });
    }
  }
};

inline size_t maxEncodedBytes(const double*, size_t count) {
  return 2 * count;
}
inline size_t encodeScratchBytes(const double*, size_t) {
  return 0;
}
inline size_t decodeScratchBytes(const double*, size_t, size_t) {
  return 0;
}

inline void encode(const CudaEncode& call, Stream stream) {
  auto* const message = reinterpret_cast<uint16_t*>(call.message);
  launch(stream, gridFor(call.count),
         Encode{call.gradient, call.scale, message, call.count, call.messageBytes, call.error});
}

template <bool kAccumulate>
void decodeWith(const CudaDecode& call, Stream stream) {
  const auto* const payload = reinterpret_cast<const uint16_t*>(call.payload);
  launch(stream, gridFor(call.count),
         Decode<kAccumulate>{payload, call.payloadBytes, call.capacity, call.output, call.count, call.error});
}

inline void decode(const CudaDecode& call, Stream stream) {
  return call.accumulate != 0 ? decodeWith<true>(call, stream) : decodeWith<false>(call, stream);
}

inline const char* refusal(uint32_t error) {
  return error == kWrongSize ? "the payload does not have two bytes for each element" : "unknown";
}

}  // namespace hipress::cuda::fp16

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_fp16() {
  namespace codec = hipress::cuda::fp16;
  static const hipress::cuda::CudaCodec table{"fp16",
                                              0,
                                              0,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal};
  return &table;
}
