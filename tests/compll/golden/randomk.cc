// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/randomk.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_randomk();

namespace hipress::generated::codec_randomk {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "randomk",
      32u,
      "Random-k (Stich et al., 2018): values at places that are drawn at random, on all ranks the same; the "
      "others stay in the residual.",
      {{"ratio", "0.01", "The share of the values that is sent: double in (0, 1]"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  double p_ratio{};
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
  int32_t s_sent{};
  double s_stretch{};
  size_t n_range = 0;
  size_t o_1 = 0;
  size_t o_2 = 0;
  int32_t* v_index = nullptr;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n) return {};
  [[maybe_unused]] const float x1 = f->gradient[i] * f->scale;
  [[maybe_unused]] const float x2 = kStates ? f->params.p_residual_factor * f->before_residual[i] : 0.0f;
  [[maybe_unused]] const float x3 = (x1 + x2);
  return x3;
}

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto s_stretch = f->s_stretch;
      [[maybe_unused]] const auto s_sent = f->s_sent;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        int32_t* const to_v_index = f->v_index + tile;
        alignas(64) uint32_t w_0[kTile];
        philoxTile<level>(f->random.ofAllRanks(), 0u, tile, count, w_0);
        struct {
          alignas(64) int32_t x1[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = ops::uniformInt(
              w_0[i],
              ops::toInt(ops::floorOf(
                  (static_cast<double>((static_cast<int32_t>(tile) + static_cast<int32_t>(i))) * s_stretch))),
              ops::toInt(
                  ((ops::addInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), 1) == s_sent)
                       ? static_cast<double>(static_cast<int32_t>(f->n))
                       : ops::floorOf((static_cast<double>(ops::addInt(
                                           (static_cast<int32_t>(tile) + static_cast<int32_t>(i)), 1)) *
                                       s_stretch)))));
          to_v_index[i] = x1;
          t.x1[i] = x1;
        }
        copyTile(t.x1, 4 * count, f->message + f->o_1 + 4 * tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kStates>
struct Loop1 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
        struct {
          alignas(64) float x3[kTile + kApart];
        } t;
        int32_t greatest = 0;
        int32_t bad = 0;
        const auto elements = [&](auto multiply) {
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 =
                kStates ? (multiply.value ? p_residual_factor * before_residual[i] : before_residual[i])
                        : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            if (kStates) bad += ops::isFinite(x3) ? 0 : 1;
            greatest = ops::greaterMagnitude(greatest, x1);
            if (kStates) t.x3[i] = x3;
          }
        };
        if (!kStates || (p_residual_factor == 1.0f)) {
          elements(std::false_type{});
        } else {
          elements(std::true_type{});
        }
        allBad += bad;
        allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
        if (kStates) storeTile<level>(f->after_residual + tile, t.x3, count, f->stream);
      }
      if (kStates && f->stream) streamFence();
      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kStates>
struct Loop2 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const int32_t* const v_index = f->v_index + tile;
        struct {
          alignas(64) float x3[kTile + kApart];
        } t;
        int32_t bad = 0;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_index[i];
          [[maybe_unused]] const float x2 = kStates ? f->after_residual[x1] : at_value<kStates>(f, x1);
          if (kStates) {
            bad -= ops::isFinite(f->after_residual[x1]) ? 0 : 1;
            bad += ops::isFinite(0x0.0p+0f) ? 0 : 1;
            f->after_residual[x1] = 0x0.0p+0f;
          }
          [[maybe_unused]] const float x3 = x2;
          t.x3[i] = x3;
        }
        allBad += bad;
        copyTile(t.x3, 4 * count, f->message + f->o_2 + 4 * tile);
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
  int32_t s_count{};
  size_t n_index = 0;
  const int32_t* v_index = nullptr;
  size_t n_value = 0;
  const float* v_value = nullptr;
  size_t n_filled = 0;
};

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const int32_t* const v_index = f->v_index + tile;
        const float* const v_value = f->v_value + tile;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_index[i];
          [[maybe_unused]] const float x2 = v_value[i];
          float& place = f->output[x1];
          place = kAccumulate ? place + x2 : x2;
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class RandomkCodec final : public GeneratedCodec {
 public:
  RandomkCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<RandomkCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_ratio), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_randomk(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const int32_t s_sent =
        ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)));
    [[maybe_unused]] const double s_stretch = static_cast<double>(
        (static_cast<float>(static_cast<int32_t>(n)) / (static_cast<float>(s_sent) * 0x1.0000000000000p+0f)));
    [[maybe_unused]] const size_t n_range = ops::asCount(s_sent);
    return 4 + ops::packedBytes(n_range, 32u) + ops::packedBytes(n_range, 32u);
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
    f.s_sent = ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)));
    f.s_stretch = static_cast<double>((static_cast<float>(static_cast<int32_t>(f.n)) /
                                       (static_cast<float>(f.s_sent) * 0x1.0000000000000p+0f)));
    f.n_range = ops::asCount(f.s_sent);
    f.o_1 = 4;
    f.o_2 = 4 + ops::packedBytes(f.n_range, 32u);
    f.v_index = f.scratch.template take<int32_t>(f.n_range);
    {
      const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop1<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    if (const std::string fault = ops::indexFault(f.v_index, f.n_range, f.n, true); !fault.empty())
      wrong("scatter: " + fault);
    if (const std::string fault = ops::indexFault(f.v_index, f.n_range, f.n, false); !fault.empty())
      wrong("gather: " + fault);
    {
      const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop2<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_range)));
    f.bytes = 4 + ops::packedBytes(f.n_range, 32u) + ops::packedBytes(f.n_range, 32u);
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
    f.s_count = reader.scalarInt("count");
    f.n_index = reader.count("index", f.s_count);
    f.v_index = reader.template vector<int32_t>("index", f.n_index);
    f.n_value = reader.count("value", f.s_count);
    f.v_value = reader.template vector<float>("value", f.n_value);
    reader.finish();
    if (!((static_cast<double>(f.s_count) <=
           ops::ceilOf((static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)))))
      refuse("the requirement in line 21 does not hold");
    f.n_filled = ops::asCount(static_cast<int32_t>(f.n));
    if (const std::string fault = ops::indexFault(f.v_index, f.n_index, f.n_filled, true); !fault.empty())
      refuse("scatter: " + fault);
    if (!kAccumulate) std::fill_n(f.output, f.n, 0.0f);
    {
      const ops::Chunks chunks(f.parallel, f.n_index, ops::kReduceBlock);
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
  params.p_ratio = static_cast<double>(
      checkedOption(options, "ratio", options.number("ratio"), Interval{0.0, 1.0, true, false}));
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<RandomkCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_randomk
