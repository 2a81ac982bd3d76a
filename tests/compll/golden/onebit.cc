// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/onebit.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_onebit();

namespace hipress::generated::codec_onebit {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "onebit",
      16u,
      "1-bit SGD (Seide et al., 2014): one sign bit per value, for each block the mean of each sign's "
      "values, and error feedback.",
      {{"block", "32768", "How many values share their two means: int in [64, 16777216]"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  int32_t p_block{};
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
  double s_unit{};
  float s_part{};
  size_t n_count = 0;
  int32_t* v_count = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  size_t n_block = 0;
  size_t n_blocks_2 = 0;
  float* v_blocks_2 = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  size_t o_2 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto s_part = f->s_part;
      ops::Scratch scratch;
      int32_t* const partials_count = scratch.template take<int32_t>(size / ops::kReduceBlock + 1);
      float* const partials_blocks_1 = scratch.template take<float>(size / ops::kReduceBlock + 1);
      float* const partials_blocks_2 = scratch.template take<float>(size / ops::kReduceBlock + 1);
      [[maybe_unused]] const auto s_unit = f->s_unit;
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100006[ops::kMostTogether];
        float s_x100011[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, int32_t, ops::Sum> reduce_count(partials_count, ops::Sum{});
          RunReducer<level, float, ops::Sum> reduce_blocks_1(partials_blocks_1, ops::Sum{});
          RunReducer<level, float, ops::Sum> reduce_blocks_2(partials_blocks_2, ops::Sum{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            struct {
              alignas(64) uint8_t codes_x4[kBlockTile + kApart];
            } t;
            auto group_reduce_count = reduce_count.lanes();
            auto group_reduce_blocks_1 = reduce_blocks_1.lanes();
            auto group_reduce_blocks_2 = reduce_blocks_2.lanes();
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) int32_t lanes_x4[kLanes];
              alignas(64) float lanes_x5[kLanes];
              alignas(64) float lanes_x6[kLanes];
              alignas(64) int32_t lanes_codes_x4[kLanes];
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const int32_t x4 = static_cast<int32_t>((x3 >= 0x0.0p+0f));
                [[maybe_unused]] const float x5 = ((x3 >= 0x0.0p+0f) ? (x3 * s_part) : 0x0.0p+0f);
                [[maybe_unused]] const float x6 = ((x3 >= 0x0.0p+0f) ? 0x0.0p+0f : (x3 * s_part));
                lanes_x4[lane] = x4;
                lanes_x5[lane] = x5;
                lanes_x6[lane] = x6;
                lanes_codes_x4[lane] = x4;
              }
              group_reduce_count.combine(lanes_x4);
              group_reduce_blocks_1.combine(lanes_x5);
              group_reduce_blocks_2.combine(lanes_x6);
              narrowLanes<level>(lanes_codes_x4, t.codes_x4 + group);
            }
            group_reduce_count.store();
            group_reduce_blocks_1.store();
            group_reduce_blocks_2.store();
            reduce_count.combined(whole);
            reduce_blocks_1.combined(whole);
            reduce_blocks_2.combined(whole);
            if (whole != count) {
              alignas(64) int32_t lanes_x4[kLanes];
              alignas(64) float lanes_x5[kLanes];
              alignas(64) float lanes_x6[kLanes];
              alignas(64) int32_t lanes_codes_x4[kLanes];
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const int32_t x4 = static_cast<int32_t>((x3 >= 0x0.0p+0f));
                [[maybe_unused]] const float x5 = ((x3 >= 0x0.0p+0f) ? (x3 * s_part) : 0x0.0p+0f);
                [[maybe_unused]] const float x6 = ((x3 >= 0x0.0p+0f) ? 0x0.0p+0f : (x3 * s_part));
                lanes_x4[lane] = x4;
                lanes_x5[lane] = x5;
                lanes_x6[lane] = x6;
                lanes_codes_x4[lane] = x4;
                t.codes_x4[i] = static_cast<uint8_t>(lanes_codes_x4[lane]);
              }
              reduce_count.feed(lanes_x4, count - whole);
              reduce_blocks_1.feed(lanes_x5, count - whole);
              reduce_blocks_2.feed(lanes_x6, count - whole);
            }
            packTile<level>(t.codes_x4, count, 1u, f->message + f->o_2, tile);
          }
          f->v_count[block] = ops::Sum{}(0, reduce_count.finish());
          f->v_blocks_1[block] = ops::Sum{}(0x0.0p+0f, reduce_blocks_1.finish());
          f->v_blocks_2[block] = ops::Sum{}(0x0.0p+0f, reduce_blocks_2.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const int32_t b_count = f->v_count[block];
          [[maybe_unused]] const float b_blocks_1 = f->v_blocks_1[block];
          [[maybe_unused]] const float b_blocks_2 = f->v_blocks_2[block];
          [[maybe_unused]] const float x100001 = b_blocks_2;
          [[maybe_unused]] const int32_t x100002 = b_count;
          [[maybe_unused]] const float x100003 = x100001;
          [[maybe_unused]] const int32_t x100004 = ops::subtractInt(
              ops::lesser(p_block, ops::subtractInt(static_cast<int32_t>(f->n),
                                                    ops::multiplyInt(static_cast<int32_t>(block), p_block))),
              x100002);
          [[maybe_unused]] const double x100005 = s_unit;
          [[maybe_unused]] const float x100006 = static_cast<float>(
              ((x100004 > 0) ? ((static_cast<double>(x100003) * x100005) / static_cast<double>(x100004))
                             : 0x0.0p+0));
          [[maybe_unused]] const float x100007 = b_blocks_1;
          [[maybe_unused]] const float x100008 = x100007;
          [[maybe_unused]] const int32_t x100009 = x100002;
          [[maybe_unused]] const double x100010 = s_unit;
          [[maybe_unused]] const float x100011 = static_cast<float>(
              ((x100009 > 0) ? ((static_cast<double>(x100008) * x100010) / static_cast<double>(x100009))
                             : 0x0.0p+0));
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100006));
          ops::putScalar(f->message + f->o_1 + 4 * block, static_cast<float>(x100011));
          s_x100006[block - from / size] = x100006;
          s_x100011[block - from / size] = x100011;
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100006 = s_x100006[block - from / size];
          const float x100011 = s_x100011[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            struct {
              alignas(64) float x4[kBlockTile + kApart];
            } t;
            int32_t greatest = 0;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = (x3 - ((x3 >= 0x0.0p+0f) ? x100011 : x100006));
              greatest = ops::greaterMagnitude(greatest, kStates ? x4 : x1);
              if (kStates) t.x4[i] = x4;
            }
            allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (kStates) storeTile<level>(f->after_residual + tile, t.x4, count, f->stream);
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
  int32_t s_n{};
  size_t n_low = 0;
  const float* v_low = nullptr;
  size_t n_high = 0;
  const float* v_high = nullptr;
  size_t n_sign = 0;
  const uint8_t* v_sign = nullptr;
};

template <bool kAccumulate>
inline float at_low([[maybe_unused]] const Frame* f, int32_t i);
template <bool kAccumulate>
inline float at_high([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_low([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_low) return {};
  [[maybe_unused]] const float x1 = f->v_low[i];
  return x1;
}

template <bool kAccumulate>
inline float at_high([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_high) return {};
  [[maybe_unused]] const float x1 = f->v_high[i];
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
        [[maybe_unused]] const float x100001 = at_low<kAccumulate>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const float x100002 = at_high<kAccumulate>(f, static_cast<int32_t>(block));
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) int32_t u_sign[kBlockTile];
          unpackTile<level>(f->v_sign, tile, count, 1u, u_sign);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_sign[i];
            [[maybe_unused]] const float x2 = ((x1 != 0) ? x100002 : x100001);
            output[i] = kAccumulate ? output[i] + x2 : x2;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class OnebitCodec final : public GeneratedCodec {
 public:
  OnebitCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<OnebitCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_block), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_onebit(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const double s_unit =
        static_cast<double>((0x1.0000000000000p+1f * static_cast<float>(params.p_block)));
    [[maybe_unused]] const float s_part = static_cast<float>((0x1.0000000000000p+0 / s_unit));
    [[maybe_unused]] const size_t n_count = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_count = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t n_block =
        ops::asCount(ops::blocksOf(static_cast<int32_t>(n), params.p_block));
    [[maybe_unused]] const size_t n_blocks_2 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_blocks_2 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    return ops::packedBytes(most_blocks_2, 32u) + ops::packedBytes(most_blocks_1, 32u) +
           ops::packedBytes(n, 1u);
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
    f.s_unit = static_cast<double>((0x1.0000000000000p+1f * static_cast<float>(f.params.p_block)));
    f.s_part = static_cast<float>((0x1.0000000000000p+0 / f.s_unit));
    f.n_count = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_count = f.scratch.template take<int32_t>(f.n_count);
    f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_blocks_1 = f.scratch.template take<float>(f.n_blocks_1);
    f.n_block = ops::asCount(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.n_blocks_2 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_blocks_2 = f.scratch.template take<float>(f.n_blocks_2);
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_blocks_2, 32u);
    f.o_2 = ops::packedBytes(f.n_blocks_2, 32u) + ops::packedBytes(f.n_blocks_1, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes =
        ops::packedBytes(f.n_blocks_2, 32u) + ops::packedBytes(f.n_blocks_1, 32u) + ops::packedBytes(f.n, 1u);
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
    f.n_low = reader.count("low", f.s_n);
    f.v_low = reader.template vector<float>("low", f.n_low);
    f.n_high = reader.count("high", f.s_n);
    f.v_high = reader.template vector<float>("high", f.n_high);
    f.n_sign = reader.count("sign", static_cast<int32_t>(f.n));
    f.v_sign = reader.packed("sign", f.n_sign, 1u);
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
      checkedOption(options, "block", options.integer("block"), Interval{64.0, 16777216.0, false, false}));
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<OnebitCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_onebit
