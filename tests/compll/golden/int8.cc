// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/int8.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_int8();

namespace hipress::generated::codec_int8 {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "int8",
      22u,
      "Block-scaled integers of 8 bits: each value is -127 to 127 times its block's scale, the greatest "
      "magnitude over 127.",
      {{"block", "256", "How many values share a scale: int in [16, 16777216]"},
       {"stochastic", "false", "Round at random without bias, in place of to the nearest: bool"},
       {"error_feedback", "false", "Keep what rounding dropped and add it to the next gradient: bool"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  int32_t p_block{};
  bool p_stochastic{};
  bool p_error_feedback{};
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
  size_t n_greatest = 0;
  float* v_greatest = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      if (f->params.p_stochastic) return version<true>(f, begin, end, chunk);
      return version<false>(f, begin, end, chunk);
    }
    template <bool p_stochastic>
    static void version(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      ops::Scratch scratch;
      float* const partials_greatest = scratch.template take<float>(size / ops::kReduceBlock + 1);
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100004[ops::kMostTogether];
        float s_x100005[ops::kMostTogether];
        float s_x100006[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, float, ops::Greatest> reduce_greatest(partials_greatest, ops::Greatest{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            auto group_reduce_greatest = reduce_greatest.lanes();
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) float lanes_x4[kLanes];
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                lanes_x4[lane] = x4;
              }
              group_reduce_greatest.combine(lanes_x4);
            }
            group_reduce_greatest.store();
            reduce_greatest.combined(whole);
            if (whole != count) {
              alignas(64) float lanes_x4[kLanes];
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                lanes_x4[lane] = x4;
              }
              reduce_greatest.feed(lanes_x4, count - whole);
            }
          }
          f->v_greatest[block] = ops::Greatest{}(0x0.0p+0f, reduce_greatest.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const float b_greatest = f->v_greatest[block];
          [[maybe_unused]] const float x100001 = b_greatest;
          [[maybe_unused]] const float x100002 =
              ((x100001 < 0x1.79ca100000000p-67f) ? 0x1.0000000000000p+64f : 0x1.0000000000000p+0f);
          [[maybe_unused]] const float x100003 =
              (p_stochastic ? 0x1.fbfffe0000000p+6f : 0x1.fc00000000000p+6f);
          [[maybe_unused]] const float x100004 =
              ops::lesser((x100001 / 0x1.fc00000000000p+6f), 0x1.0204060000000p+121f);
          [[maybe_unused]] const float x100005 = x100002;
          [[maybe_unused]] const float x100006 =
              ((x100001 > 0x0.0p+0f) ? (x100003 / (x100001 * x100002)) : 0x0.0p+0f);
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100004));
          s_x100004[block - from / size] = x100004;
          s_x100005[block - from / size] = x100005;
          s_x100006[block - from / size] = x100006;
        }
        alignas(64) uint16_t drawn_0[kBlockTile];
        if (p_stochastic)
          if (together <= kBlockTile) philoxTile<level>(f->random, 0u, from, until - from, drawn_0);
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100004 = s_x100004[block - from / size];
          const float x100005 = s_x100005[block - from / size];
          const float x100006 = s_x100006[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            if (p_stochastic)
              if (together > kBlockTile) philoxTile<level>(f->random, 0u, tile, count, drawn_0);
            const uint16_t* const w_0 = drawn_0 + (together <= kBlockTile ? tile - from : 0);
            struct {
              alignas(64) float x8[kBlockTile + kApart];
              alignas(64) uint8_t codes_x9[kBlockTile + kApart];
            } t;
            int32_t greatest = 0;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = ((x3 * x100005) * x100006);
              [[maybe_unused]] const float x5 =
                  (p_stochastic ? (x4 + ops::uniform(ops::halfWord(w_0[i]), (-0x1.0000000000000p-1f),
                                                     0x1.0000000000000p-1f))
                                : x4);
              [[maybe_unused]] const float x6 = ops::roundOf(x5);
              [[maybe_unused]] const int32_t x7 = ops::nearestSigned(x5, 8u);
              [[maybe_unused]] const float x8 = (x3 - (x6 * x100004));
              greatest = ops::greaterMagnitude(greatest, kStates ? x8 : x1);
              [[maybe_unused]] const int32_t x9 = (x7 & 255);
              if (kStates) t.x8[i] = x8;
              t.codes_x9[i] = static_cast<uint8_t>(x9);
            }
            allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (kStates) storeTile<level>(f->after_residual + tile, t.x8, count, f->stream);
            packTile<level>(t.codes_x9, count, 8u, f->message + f->o_1, tile);
          }
        }
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
  size_t n_scale = 0;
  const float* v_scale = nullptr;
  size_t n_level = 0;
  const uint8_t* v_level = nullptr;
};

template <bool kAccumulate>
inline float at_scale([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_scale([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_scale) return {};
  [[maybe_unused]] const float x1 = f->v_scale[i];
  return x1;
}

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const float x100001 = at_scale<kAccumulate>(f, static_cast<int32_t>(block));
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) int32_t u_level[kBlockTile];
          unpackTile<level>(f->v_level, tile, count, 8u, u_level);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = ops::signExtended(u_level[i], 8u);
            [[maybe_unused]] const float x2 = (static_cast<float>(x1) * x100001);
            output[i] = kAccumulate ? output[i] + x2 : x2;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class Int8Codec final : public GeneratedCodec {
 public:
  Int8Codec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<Int8Codec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_block), static_cast<double>(params.p_stochastic),
            static_cast<double>(params.p_error_feedback), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_int8(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const size_t n_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
    return ops::packedBytes(most_greatest, 32u) + ops::packedBytes(n, 8u);
  }

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
    f.n_greatest = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_greatest = f.scratch.template take<float>(f.n_greatest);
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_greatest, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_greatest, 32u) + ops::packedBytes(f.n, 8u);
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
    f.n_scale = reader.count("scale", ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.v_scale = reader.template vector<float>("scale", f.n_scale);
    f.n_level = reader.count("level", static_cast<int32_t>(f.n));
    f.v_level = reader.packed("level", f.n_level, 8u);
    reader.finish();
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
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
  params.p_block = static_cast<int32_t>(
      checkedOption(options, "block", options.integer("block"), Interval{16.0, 16777216.0, false, false}));
  params.p_stochastic = options.boolean("stochastic");
  params.p_error_feedback = options.boolean("error_feedback");
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<Int8Codec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_int8
