// SPDX-License-Identifier: Apache-2.0
#include "core/codec/builtin/fp16.h"

#include <algorithm>
#include <limits>

#include "core/codec/generated_codec.h"
#include "core/codec/text/arguments.h"
#include "core/element/half_kernels.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_fp16();

namespace hipress {
namespace {

/// A block is so small that its scaled values stay in the first cache level.
constexpr size_t kBlock = 2048;

template <IsaLevel level>
struct Encode {
  static void run(const float* input, float scale, Unaligned<uint16_t>* output, size_t count) {
    alignas(64) float scaled[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t length = std::min(kBlock, count - begin);
      for (size_t i = 0; i < length; ++i) scaled[i] = scale * input[begin + i];
      narrowHalves<level>(scaled, output + begin, length);
    }
  }
};

template <IsaLevel level>
struct Assign {
  static void run(const Unaligned<uint16_t>* payload, float* output, size_t count) {
    widenHalves<level>(payload, output, count);
  }
};

template <IsaLevel level>
struct Accumulate {
  static void run(const Unaligned<uint16_t>* payload, float* output, size_t count) {
    alignas(64) float decoded[kBlock];
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t length = std::min(kBlock, count - begin);
      widenHalves<level>(payload + begin, decoded, length);
      for (size_t i = 0; i < length; ++i) output[begin + i] += decoded[i];
    }
  }
};

class Fp16 final : public Codec {
 public:
  std::string_view name() const override { return "fp16"; }
  std::string signature() const override { return "fp16"; }
  CodecId id() const override { return 1; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_fp16(); }
  /// Larger partitions travel raw, as with generated codecs: a device stores a message's size in 32 bits, and
  /// all ranks must decide alike, on all devices.
  size_t maxEncodedBytes(size_t count) const override {
    return count <= kMostElements ? count * sizeof(uint16_t) : std::numeric_limits<size_t>::max();
  }

  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override {
    checkEncodeArguments(*this, input, states, output);
    multiversion<Encode>(input.data(), context.scale, reinterpret_cast<Unaligned<uint16_t>*>(output.data()),
                         input.size());
    return maxEncodedBytes(input.size());
  }

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode, Parallel*) const override {
    checkPayloadSize(*this, payload, output.size(), maxEncodedBytes(output.size()));
    const auto* halves = reinterpret_cast<const Unaligned<uint16_t>*>(payload.data());
    if (mode == DecodeMode::kAssign) {
      multiversion<Assign>(halves, output.data(), output.size());
    } else {
      multiversion<Accumulate>(halves, output.data(), output.size());
    }
  }
};

}  // namespace

CodecDescription describeFp16() {
  return {.name = "fp16",
          .id = 1,
          .summary = "IEEE half precision, rounded to nearest even; 65520 and above become infinity."};
}

CodecPointer createFp16(const CodecOptions&) {
  return std::make_shared<Fp16>();
}

}  // namespace hipress
