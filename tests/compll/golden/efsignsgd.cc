// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/efsignsgd.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_efsignsgd();

namespace hipress::generated::codec_efsignsgd {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "efsignsgd",
      27u,
      "EF-SignSGD (Karimireddy et al., 2019): the sign of each value times the mean magnitude of its block, "
      "and error feedback.",
      {{"block", "32768", "How many values share a magnitude: int in [64, 16777216]"}},
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
  size_t n_total = 0;
  float* v_total = nullptr;
  size_t n_range = 0;
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
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto s_part = f->s_part;
      ops::Scratch scratch;
      float* const partials_total = scratch.template take<float>(size / ops::kReduceBlock + 1);
      [[maybe_unused]] const auto s_unit = f->s_unit;
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100002[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, float, ops::Sum> reduce_total(partials_total, ops::Sum{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            auto group_reduce_total = reduce_total.lanes();
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) float lanes_x4[kLanes];
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = (ops::absolute(x3) * s_part);
                lanes_x4[lane] = x4;
              }
              group_reduce_total.combine(lanes_x4);
            }
            group_reduce_total.store();
            reduce_total.combined(whole);
            if (whole != count) {
              alignas(64) float lanes_x4[kLanes];
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 = (ops::absolute(x3) * s_part);
                lanes_x4[lane] = x4;
              }
              reduce_total.feed(lanes_x4, count - whole);
            }
          }
          f->v_total[block] = ops::Sum{}(0x0.0p+0f, reduce_total.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const float b_total = f->v_total[block];
          [[maybe_unused]] const float x100001 = b_total;
          [[maybe_unused]] const float x100002 = static_cast<float>(
              ((static_cast<double>(x100001) * s_unit) /
               static_cast<double>(ops::lesser(
                   p_block, ops::subtractInt(static_cast<int32_t>(f->n),
                                             ops::multiplyInt(static_cast<int32_t>(block), p_block))))));
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100002));
          s_x100002[block - from / size] = x100002;
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100002 = s_x100002[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            struct {
              alignas(64) float x5[kBlockTile + kApart];
              alignas(64) uint8_t codes_x4[kBlockTile + kApart];
            } t;
            int32_t greatest = 0;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const int32_t x4 = static_cast<int32_t>((x3 < 0x0.0p+0f));
              [[maybe_unused]] const float x5 = (x3 - ((x3 < 0x0.0p+0f) ? (-x100002) : x100002));
              greatest = ops::greaterMagnitude(greatest, kStates ? x5 : x1);
              if (kStates) t.x5[i] = x5;
              t.codes_x4[i] = static_cast<uint8_t>(x4);
            }
            allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (kStates) storeTile<level>(f->after_residual + tile, t.x5, count, f->stream);
            packTile<level>(t.codes_x4, count, 1u, f->message + f->o_1, tile);
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
  size_t n_mean = 0;
  const float* v_mean = nullptr;
  size_t n_negative = 0;
  const uint8_t* v_negative = nullptr;
};

template <bool kAccumulate>
inline float at_mean([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_mean([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_mean) return {};
  [[maybe_unused]] const float x1 = f->v_mean[i];
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
        [[maybe_unused]] const float x100001 = at_mean<kAccumulate>(f, static_cast<int32_t>(block));
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) int32_t u_negative[kBlockTile];
          unpackTile<level>(f->v_negative, tile, count, 1u, u_negative);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_negative[i];
            [[maybe_unused]] const float x2 = ((x1 != 0) ? (-x100001) : x100001);
            output[i] = kAccumulate ? output[i] + x2 : x2;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class EfsignsgdCodec final : public GeneratedCodec {
 public:
  EfsignsgdCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<EfsignsgdCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_block), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_efsignsgd(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const double s_unit =
        static_cast<double>((0x1.0000000000000p+1f * static_cast<float>(params.p_block)));
    [[maybe_unused]] const float s_part = static_cast<float>((0x1.0000000000000p+0 / s_unit));
    [[maybe_unused]] const size_t n_total = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_total = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t n_range =
        ops::asCount(ops::blocksOf(static_cast<int32_t>(n), params.p_block));
    return ops::packedBytes(most_total, 32u) + ops::packedBytes(n, 1u);
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
    f.n_total = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_total = f.scratch.template take<float>(f.n_total);
    f.n_range = ops::asCount(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_total, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_total, 32u) + ops::packedBytes(f.n, 1u);
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
    f.n_mean = reader.count("mean", ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.v_mean = reader.template vector<float>("mean", f.n_mean);
    f.n_negative = reader.count("negative", static_cast<int32_t>(f.n));
    f.v_negative = reader.packed("negative", f.n_negative, 1u);
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
  return std::make_shared<EfsignsgdCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_efsignsgd
