// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/terngrad.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_terngrad();

namespace hipress::generated::codec_terngrad {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "terngrad",
      18u,
      "TernGrad as HiPress means it, by blocks: 2^bitwidth levels from a block's least to its greatest "
      "value, rounded at random without bias.",
      {{"bitwidth", "2", "uint8 in {1, 2, 4, 8}"},
       {"stochastic", "true", "bool"},
       {"block", "1024", "How many values share their levels: int in [64, 16777216]"}},
      {},
      ""};
  return face;
}

struct Params {
  int32_t p_bitwidth{};
  bool p_stochastic{};
  int32_t p_block{};
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
  int32_t s_levels{};
  size_t n_least = 0;
  float* v_least = nullptr;
  size_t n_greatest = 0;
  float* v_greatest = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  size_t o_2 = 0;
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
      ops::Scratch scratch;
      float* const partials_least = scratch.template take<float>(size / ops::kReduceBlock + 1);
      float* const partials_greatest = scratch.template take<float>(size / ops::kReduceBlock + 1);
      [[maybe_unused]] const auto s_levels = f->s_levels;
      [[maybe_unused]] const auto p_bitwidth = f->params.p_bitwidth;
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100001[ops::kMostTogether];
        float s_x100006[ops::kMostTogether];
        float s_x100007[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, float, ops::Least> reduce_least(partials_least, ops::Least{});
          RunReducer<level, float, ops::Greatest> reduce_greatest(partials_greatest, ops::Greatest{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            auto group_reduce_least = reduce_least.lanes();
            auto group_reduce_greatest = reduce_greatest.lanes();
            alignas(64) int32_t all_greatest[kLanes] = {};
            LaneGroup<level, int32_t, ops::Greatest> group_greatest(all_greatest, true);
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) float lanes_x1[kLanes];
              alignas(64) int32_t lanes_greatest[kLanes] = {};
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                int32_t& greatest = lanes_greatest[lane];
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                greatest = ops::greaterMagnitude(greatest, x1);
                lanes_x1[lane] = x1;
              }
              group_reduce_least.combine(lanes_x1);
              group_reduce_greatest.combine(lanes_x1);
              group_greatest.combine(lanes_greatest);
            }
            group_reduce_least.store();
            group_reduce_greatest.store();
            reduce_least.combined(whole);
            reduce_greatest.combined(whole);
            group_greatest.store();
            for (const int32_t greatest : all_greatest) allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (whole != count) {
              alignas(64) float lanes_x1[kLanes];
              alignas(64) int32_t lanes_greatest[kLanes] = {};
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                int32_t& greatest = lanes_greatest[lane];
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                greatest = ops::greaterMagnitude(greatest, x1);
                lanes_x1[lane] = x1;
              }
              reduce_least.feed(lanes_x1, count - whole);
              reduce_greatest.feed(lanes_x1, count - whole);
              for (const int32_t greatest : lanes_greatest)
                allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            }
          }
          f->v_least[block] = ops::Least{}(0x1.fffffe0000000p+127f, reduce_least.finish());
          f->v_greatest[block] = ops::Greatest{}((-0x1.fffffe0000000p+127f), reduce_greatest.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const float b_least = f->v_least[block];
          [[maybe_unused]] const float b_greatest = f->v_greatest[block];
          [[maybe_unused]] const float x100001 = b_least;
          [[maybe_unused]] const float x100002 = b_greatest;
          [[maybe_unused]] const float x100003 =
              ((ops::greater(ops::absolute(x100001), ops::absolute(x100002)) < 0x1.79ca100000000p-67f)
                   ? 0x1.0000000000000p+60f
                   : 0x1.0000000000000p-1f);
          [[maybe_unused]] const float x100004 = ((x100002 * x100003) - (x100001 * x100003));
          [[maybe_unused]] const float x100005 =
              (((x100002 * 0x1.0000000000000p-1f) - (x100001 * 0x1.0000000000000p-1f)) /
               static_cast<float>(s_levels));
          [[maybe_unused]] const float x100006 = x100003;
          [[maybe_unused]] const float x100007 =
              ((x100004 > 0x0.0p+0f) ? (static_cast<float>(s_levels) / x100004) : 0x0.0p+0f);
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100001));
          ops::putScalar(f->message + f->o_1 + 4 * block, static_cast<float>(x100005));
          s_x100001[block - from / size] = x100001;
          s_x100006[block - from / size] = x100006;
          s_x100007[block - from / size] = x100007;
        }
        alignas(64) uint16_t drawn_0[kBlockTile];
        if (p_stochastic)
          if (together <= kBlockTile) philoxTile<level>(f->random, 0u, from, until - from, drawn_0);
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100001 = s_x100001[block - from / size];
          const float x100006 = s_x100006[block - from / size];
          const float x100007 = s_x100007[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            if (p_stochastic)
              if (together > kBlockTile) philoxTile<level>(f->random, 0u, tile, count, drawn_0);
            const uint16_t* const w_0 = drawn_0 + (together <= kBlockTile ? tile - from : 0);
            struct {
              alignas(64) uint8_t codes_x3[kBlockTile + kApart];
            } t;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = (((x1 * x100006) - (x100001 * x100006)) * x100007);
              [[maybe_unused]] const int32_t x3 = ops::toUint(
                  (p_stochastic ? ops::floorOf((x2 + ops::uniform(ops::halfWord(w_0[i]), 0x0.0p+0f,
                                                                  0x1.0000000000000p+0f)))
                                : ops::roundOf(x2)),
                  static_cast<unsigned>(p_bitwidth));
              t.codes_x3[i] = static_cast<uint8_t>(x3);
            }
            packTile<level>(t.codes_x3, count, static_cast<unsigned>(p_bitwidth), f->message + f->o_2, tile);
          }
        }
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
  int32_t s_n{};
  size_t n_least = 0;
  const float* v_least = nullptr;
  size_t n_step = 0;
  const float* v_step = nullptr;
  size_t n_code = 0;
  const uint8_t* v_code = nullptr;
};

template <bool kAccumulate>
inline float at_least([[maybe_unused]] const Frame* f, int32_t i);
template <bool kAccumulate>
inline float at_step([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_least([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_least) return {};
  [[maybe_unused]] const float x1 = f->v_least[i];
  return x1;
}

template <bool kAccumulate>
inline float at_step([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_step) return {};
  [[maybe_unused]] const float x1 = f->v_step[i];
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
      [[maybe_unused]] const auto p_bitwidth = f->params.p_bitwidth;
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const float x100001 = at_least<kAccumulate>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const float x100002 = at_step<kAccumulate>(f, static_cast<int32_t>(block));
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) int32_t u_code[kBlockTile];
          unpackTile<level>(f->v_code, tile, count, static_cast<unsigned>(p_bitwidth), u_code);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_code[i];
            [[maybe_unused]] const float x2 =
                (0x1.0000000000000p+1f *
                 ops::lesser(((static_cast<float>(x1) * x100002) + (x100001 * 0x1.0000000000000p-1f)),
                             0x1.fffffe0000000p+126f));
            output[i] = kAccumulate ? output[i] + x2 : x2;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class TerngradCodec final : public GeneratedCodec {
 public:
  TerngradCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values) {}

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_bitwidth), static_cast<double>(params.p_stochastic),
            static_cast<double>(params.p_block)};
  }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_terngrad(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const int32_t s_levels = ops::subtractInt(ops::shiftLeft(1, params.p_bitwidth), 1);
    [[maybe_unused]] const size_t n_least = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_least = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t n_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
    return ops::packedBytes(most_least, 32u) + ops::packedBytes(most_least, 32u) +
           ops::packedBytes(n, static_cast<unsigned>(params.p_bitwidth));
  }

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

    f.s_levels = ops::subtractInt(ops::shiftLeft(1, f.params.p_bitwidth), 1);
    f.n_least = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_least = f.scratch.template take<float>(f.n_least);
    f.n_greatest = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_greatest = f.scratch.template take<float>(f.n_greatest);
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_least, 32u);
    f.o_2 = ops::packedBytes(f.n_least, 32u) + ops::packedBytes(f.n_least, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_least, 32u) + ops::packedBytes(f.n_least, 32u) +
              ops::packedBytes(f.n, static_cast<unsigned>(f.params.p_bitwidth));
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
    f.s_n = ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block);
    f.n_least = reader.count("least", f.s_n);
    f.v_least = reader.template vector<float>("least", f.n_least);
    f.n_step = reader.count("step", f.s_n);
    f.v_step = reader.template vector<float>("step", f.n_step);
    f.n_code = reader.count("code", static_cast<int32_t>(f.n));
    f.v_code = reader.packed("code", f.n_code, static_cast<unsigned>(f.params.p_bitwidth));
    reader.finish();
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
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
  params.p_bitwidth = static_cast<int32_t>(
      checkedOption(options, "bitwidth", options.integer("bitwidth"), OneOf{1.0, 2.0, 4.0, 8.0}));
  params.p_stochastic = options.boolean("stochastic");
  params.p_block = static_cast<int32_t>(
      checkedOption(options, "block", options.integer("block"), Interval{64.0, 16777216.0, false, false}));
  return std::make_shared<TerngradCodec>(options, params, false);
}

}  // namespace hipress::generated::codec_terngrad
