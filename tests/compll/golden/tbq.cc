// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/tbq.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_tbq();

namespace hipress::generated::codec_tbq {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{"tbq",
                                            17u,
                                            "Threshold binary quantisation (Strom, 2015): +t, 0 or -t in two "
                                            "bits; what is left stays in the residual.",
                                            {{"threshold", "0.05", "float in (0, inf)"}},
                                            {{"residual", 1}},
                                            ""};
  return face;
}

struct Params {
  float p_threshold{};
  float p_residual_factor{};
  float p_gradient_factor{};
};

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
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto p_threshold = f->params.p_threshold;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
        struct {
          alignas(64) float x7[kTile + kApart];
          alignas(64) uint8_t codes_x6[kTile + kApart];
        } t;
        int32_t greatest = 0;
        const auto elements = [&](auto multiply) {
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 =
                kStates ? (multiply.value ? p_residual_factor * before_residual[i] : before_residual[i])
                        : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            [[maybe_unused]] const int32_t x4 =
                ops::addInt(((x3 > (-p_threshold)) ? 1 : 0), ((x3 >= p_threshold) ? 1 : 0));
            [[maybe_unused]] const float x5 = ((x3 >= p_threshold) ? (x3 - p_threshold) : x3);
            [[maybe_unused]] const int32_t x6 = ops::toUint(x4, 2u);
            [[maybe_unused]] const float x7 = ((x3 > (-p_threshold)) ? x5 : (x3 + p_threshold));
            greatest = ops::greaterMagnitude(greatest, kStates ? x7 : x1);
            if (kStates) t.x7[i] = x7;
            t.codes_x6[i] = static_cast<uint8_t>(x6);
          }
        };
        if (!kStates || (p_residual_factor == 1.0f)) {
          elements(std::false_type{});
        } else {
          elements(std::true_type{});
        }
        allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
        if (kStates) storeTile<level>(f->after_residual + tile, t.x7, count, f->stream);
        packTile<level>(t.codes_x6, count, 2u, f->message + f->o_0, tile);
      }
      if (kStates && f->stream) streamFence();
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
  size_t n_code = 0;
  const uint8_t* v_code = nullptr;
};

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_threshold = f->params.p_threshold;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        float* const output = f->output + tile;
        prefetchElements(output + kTile, count);
        alignas(64) int32_t u_code[kTile];
        unpackTile<level>(f->v_code, tile, count, 2u, u_code);
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = u_code[i];
          [[maybe_unused]] const float x2 = (static_cast<float>(ops::subtractInt(x1, 1)) * p_threshold);
          output[i] = kAccumulate ? output[i] + x2 : x2;
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class TbqCodec final : public GeneratedCodec {
 public:
  TbqCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<TbqCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_threshold), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_tbq(); }

 protected:
  size_t bound(size_t n) const override { return ops::packedBytes(n, 2u); }

  size_t encodeValues(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                      Bytes output) const override {
    return states.before.empty() ? encodeWith<false>(input, states, context, output)
                                 : encodeWith<true>(input, states, context, output);
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
    f.before_residual = kStates ? states.before[0] : nullptr;
    f.after_residual = kStates ? states.after[0] : nullptr;
    f.o_0 = 0;
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n, 2u);
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
    f.n_code = reader.count("code", static_cast<int32_t>(f.n));
    f.v_code = reader.packed("code", f.n_code, 2u);
    reader.finish();
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kAccumulate>::template Kernel>(&f, begin, end, chunk);
      });
    }
  }

  const Params params;
  const CodecOptions options;
};

}  // namespace

CodecDescription describe() {
  return describeGenerated(interface());
}

CodecPointer create([[maybe_unused]] const CodecOptions& options) {
  Params params;
  params.p_threshold = static_cast<float>(
      checkedOption(options, "threshold", options.number("threshold"), Interval{0.0, INFINITY, true, true}));
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<TbqCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_tbq
