// SPDX-License-Identifier: Apache-2.0
//
// `fp16` on a GPU: a table of functions like the tables of generated codecs.
#include <limits>

#include "core/codec/builtin/fp16_kernels.h"
#include "core/ops/cuda/cuda_codec.h"

namespace hipress::cuda::fp16 {
namespace {

size_t maxEncodedBytes(const double*, size_t count) {
  return count <= kMostMessageBytes / 2 ? 2 * count : std::numeric_limits<size_t>::max();
}
size_t encodeScratchBytes(const double*, size_t) {
  return 0;
}
size_t decodeScratchBytes(const double*, size_t, size_t) {
  return 0;
}

void encode(const CudaEncode& call, Stream stream) {
  auto* const message = reinterpret_cast<uint16_t*>(call.message);
  launch(stream, "fp16_encode", gridFor(call.count),
         Encode{call.gradient, call.scale, message, call.count, call.messageBytes, call.error});
}

template <bool kAccumulate>
void decodeWith(const CudaDecode& call, Stream stream) {
  const auto* const payload = reinterpret_cast<const uint16_t*>(call.payload);
  launch(stream, kAccumulate ? "fp16_decode_accumulate" : "fp16_decode", gridFor(call.count),
         Decode<kAccumulate>{payload, call.payloadBytes, call.capacity, call.output, call.count, call.error});
}

void decode(const CudaDecode& call, Stream stream) {
  return call.accumulate != 0 ? decodeWith<true>(call, stream) : decodeWith<false>(call, stream);
}

size_t sumScratchBytes(size_t number, size_t count) {
  return number > kMostSummed ? count * sizeof(float) : 0;
}

void sum(const CudaSum& call, Stream stream) {
  for (size_t first = 0; first < call.number; first += kMostSummed) {
    const Contributions part = contributionsFrom(call, first, static_cast<float*>(call.scratch));
    launch(stream, "fp16_sum", gridFor(call.count), Sum{part, call.capacity});
  }
}

const char* refusal(uint32_t error) {
  return error == kWrongSize ? "the payload does not have two bytes for each element" : "unknown";
}

}  // namespace
}  // namespace hipress::cuda::fp16

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_fp16() {
  namespace codec = hipress::cuda::fp16;
  static const hipress::cuda::CudaCodec table{"fp16",
                                              "#include \"core/codec/builtin/fp16_kernels.h\"\n",
                                              0,
                                              0,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              &codec::sumScratchBytes,
                                              &codec::sum,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr};
  return &table;
}
