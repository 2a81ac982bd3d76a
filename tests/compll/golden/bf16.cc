// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/bf16.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_bf16();

namespace hipress::generated::codec_bf16 {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "bf16", 21u, "bfloat16: the upper half of each float, rounded to nearest even.", {}, {}, ""};
  return face;
}

struct Params {};

namespace encoding {

struct Frame {
  size_t n = 0;
  Params params;
  Parallel* parallel = nullptr;
  ops::Scratch scratch;
  std::atomic<int64_t> bad{0};
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  bool stream = false;
  uint8_t* message = nullptr;
  size_t bytes = 0;
  size_t o_0 = 0;
};

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      const float scale = f->scale;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        struct {
          alignas(64) uint16_t codes_x3[kTile + kApart];
        } t;
        int32_t greatest = 0;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const float x1 = gradient[i] * scale;
          [[maybe_unused]] const int32_t x2 = ops::bitsOf(x1);
          [[maybe_unused]] const int32_t x3 = ops::toUint(
              (ops::shiftRight(ops::addInt(ops::addInt(x2, 32767), (ops::shiftRight(x2, 16) & 1)), 16) &
               65535),
              16u);
          greatest = ops::greaterMagnitude(greatest, x1);
          t.codes_x3[i] = static_cast<uint16_t>(x3);
        }
        allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
        copyTile(t.codes_x3, 2 * count, f->message + f->o_0 + 2 * tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace encoding

namespace decoding {

struct Frame {
  size_t n = 0;
  Params params;
  Parallel* parallel = nullptr;
  ops::Scratch scratch;
  std::atomic<int64_t> bad{0};
  float* output = nullptr;
  size_t n_upper = 0;
  const uint16_t* v_upper = nullptr;
};

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        float* const output = f->output + tile;
        prefetchElements(output + kTile, count);
        const uint16_t* const v_upper = f->v_upper + tile;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_upper[i];
          [[maybe_unused]] const float x2 = ops::floatOf(ops::shiftLeft(x1, 16));
          output[i] = kAccumulate ? output[i] + x2 : x2;
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class Bf16Codec final : public GeneratedCodec {
 public:
  Bf16Codec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values) {}

  std::vector<double> parameters() const override { return {}; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_bf16(); }

 protected:
  size_t bound(size_t n) const override { return ops::packedBytes(n, 16u); }

  size_t encodeValues(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                      Bytes output) const override {
    return encodeWith<false>(input, states, context, output);
  }

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                     Parallel* parallel) const override {
    return mode == DecodeMode::kAccumulate ? decodeWith<true>(payload, output, parallel)
                                           : decodeWith<false>(payload, output, parallel);
  }

 private:
  template <bool kStates>
  size_t encodeWith(std::span<const float> input, [[maybe_unused]] const EncodeStates& states,
                    const EncodeContext& context, Bytes output) const {
    using namespace encoding;
    Frame f;
    f.n = input.size();
    f.params = params;
    f.parallel = context.parallel;
    f.gradient = input.data();
    f.scale = context.scale;
    f.random = {context.seed, context.step, context.tensor, context.firstElement};
    f.stream = input.size() >= ops::kStreamFrom;
    f.message = reinterpret_cast<uint8_t*>(output.data());

    f.o_0 = 0;
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n, 16u);
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }

  template <bool kAccumulate>
  void decodeWith(ConstBytes payload, std::span<float> output, Parallel* parallel) const {
    using namespace decoding;
    checkCount(output.size());
    Frame f;
    f.n = output.size();
    f.params = params;
    f.parallel = parallel;
    f.output = output.data();
    [[maybe_unused]] ops::PayloadReader reader(name(), payload, f.scratch);
    f.n_upper = reader.count("upper", static_cast<int32_t>(f.n));
    f.v_upper = reader.template vector<uint16_t>("upper", f.n_upper);
    reader.finish();
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kAccumulate>::template Kernel>(&f, begin, end, chunk);
      });
    }
  }

  const Params params;
};

}  // namespace

CodecDescription describe() {
  return describeGenerated(interface());
}

CodecPointer create([[maybe_unused]] const CodecOptions& options) {
  Params params;

  return std::make_shared<Bf16Codec>(options, params, false);
}

}  // namespace hipress::generated::codec_bf16
