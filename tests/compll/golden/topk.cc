// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/topk.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_topk();

namespace hipress::generated::codec_topk {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "topk",
      30u,
      "Top-k (Aji & Heafield, 2017; Stich et al., 2018): exactly the largest values are sent, the others "
      "stay in the residual.",
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
  size_t n_range = 0;
  size_t o_1 = 0;
  const uint32_t* k_taken = nullptr;
  uint32_t l_taken = 0;
  ops::Candidates<uint32_t> a_taken;
  size_t n_taken = 0;
  uint32_t* p_taken = nullptr;
  int32_t* v_taken = nullptr;
  int32_t* v_index = nullptr;
  size_t o_2 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline uint32_t key_taken([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_range([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_taken([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n) return {};
  [[maybe_unused]] const float x1 = f->gradient[i] * f->scale;
  [[maybe_unused]] const float x2 = kStates ? f->params.p_residual_factor * f->before_residual[i] : 0.0f;
  [[maybe_unused]] const float x3 = (x1 + x2);
  return x3;
}

template <bool kStates>
inline uint32_t key_taken([[maybe_unused]] const Frame* f, int32_t i) {
  [[maybe_unused]] const float x1 = (-ops::absolute(at_value<kStates>(f, i)));
  return ops::orderKey((x1));
}

template <bool kStates>
inline int32_t at_range([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};

  return i;
}

template <bool kStates>
inline int32_t at_taken([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_taken) return {};
  [[maybe_unused]] const int32_t x1 = f->v_taken[i];
  return x1;
}

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      auto a_taken = f->a_taken[chunk];
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
        struct {
          alignas(64) uint32_t codes_x5[kTile + kApart];
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
            [[maybe_unused]] const float x4 = (-ops::absolute(x3));
            [[maybe_unused]] const uint32_t x5 = ops::orderKey((x4));
            if (kStates) bad += ops::isFinite(x3) ? 0 : 1;
            greatest = ops::greaterMagnitude(greatest, x1);
            t.codes_x5[i] = x5;
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
        a_taken.template add<level>(t.codes_x5, count, tile);
        if (kStates) storeTile<level>(f->after_residual + tile, t.x3, count, f->stream);
      }
      if (kStates && f->stream) streamFence();
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
      auto a_taken = f->a_taken[chunk];
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
        struct {
          alignas(64) uint32_t codes_x5[kTile + kApart];
        } t;
        const auto elements = [&](auto multiply) {
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 =
                kStates ? (multiply.value ? p_residual_factor * before_residual[i] : before_residual[i])
                        : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            [[maybe_unused]] const float x4 = (-ops::absolute(x3));
            [[maybe_unused]] const uint32_t x5 = ops::orderKey((x4));
            t.codes_x5[i] = x5;
          }
        };
        if (!kStates || (p_residual_factor == 1.0f)) {
          elements(std::false_type{});
        } else {
          elements(std::true_type{});
        }
        a_taken.template add<level>(t.codes_x5, count, tile);
      }

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
          alignas(64) int32_t x1[kTile + kApart];
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
          t.x1[i] = x1;
          t.x3[i] = x3;
        }
        allBad += bad;
        copyTile(t.x1, 4 * count, f->message + f->o_1 + 4 * tile);
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

class TopkCodec final : public GeneratedCodec {
 public:
  TopkCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<TopkCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_ratio), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_topk(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n));
    [[maybe_unused]] const size_t n_taken = std::min(
        ops::asCount(
            ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
        n_range);
    [[maybe_unused]] const size_t most_taken = std::min(
        ops::asCount(
            ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
        n_range);
    return 4 + ops::packedBytes(most_taken, 32u) + ops::packedBytes(most_taken, 32u);
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
    f.n_range = ops::asCount(static_cast<int32_t>(f.n));
    f.o_1 = 4;
    f.l_taken = ops::likelyLimit<uint32_t>(
        f.n_range,
        std::min(ops::asCount(ops::toInt(
                     ops::ceilOf((static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)))),
                 f.n_range),
        [&f](size_t i) { return key_taken<kStates>(&f, static_cast<int32_t>(i)); });
    {
      const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
      f.a_taken.begin(chunks.count(), chunks.each(), f.l_taken);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.k_taken = f.a_taken.gathered(f.scratch);
    f.n_taken = std::min(ops::asCount(ops::toInt(ops::ceilOf(
                             (static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)))),
                         f.n_range);
    f.p_taken = f.scratch.template take<uint32_t>(f.n_taken);
    if (f.a_taken.size() < f.n_taken) {
      f.l_taken = ops::kNoLimit<decltype(f.l_taken)>;
      {
        const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
        f.a_taken.begin(chunks.count(), chunks.each(), f.l_taken);
        chunks.run([&f](size_t chunk, size_t begin, size_t end) {
          multiversion<Loop1<kStates>::template Kernel>(&f, begin, end, chunk);
        });
      }
      f.k_taken = f.a_taken.gathered(f.scratch);
    }
    ops::smallestSet(f.k_taken, f.a_taken.size(), f.n_taken, f.p_taken);
    f.a_taken.toPositions(f.p_taken, f.n_taken);
    f.v_taken = f.scratch.template take<int32_t>(f.n_taken);
    for (size_t i = 0; i < f.n_taken; ++i)
      f.v_taken[i] = at_range<kStates>(&f, static_cast<int32_t>(f.p_taken[i]));
    f.v_index = f.scratch.template take<int32_t>(f.n_taken);
    for (size_t i = 0; i < f.n_taken; ++i) f.v_index[i] = at_taken<kStates>(&f, static_cast<int32_t>(i));
    if (const std::string fault = ops::indexFault(f.v_index, f.n_taken, f.n, true); !fault.empty())
      wrong("scatter: " + fault);
    if (const std::string fault = ops::indexFault(f.v_index, f.n_taken, f.n, false); !fault.empty())
      wrong("gather: " + fault);
    f.o_2 = 4 + ops::packedBytes(f.n_taken, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n_taken, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop2<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_taken)));
    f.bytes = 4 + ops::packedBytes(f.n_taken, 32u) + ops::packedBytes(f.n_taken, 32u);
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
      refuse("the requirement in line 17 does not hold");
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
  return std::make_shared<TopkCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_topk
