// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/graddrop.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_graddrop();

namespace hipress::generated::codec_graddrop {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "graddrop",
      20u,
      "Gradient dropping (Aji & Heafield, 2017): only the largest values are sent, the others stay in the "
      "residual.",
      {{"ratio", "0.001", "The share of the values that is sent: double in (0, 1]"},
       {"sample_rate", "0.001",
        "The share of the values from which the threshold is estimated: double in (0, 1]"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  double p_ratio{};
  double p_sample_rate{};
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
  int32_t s_n{};
  int32_t s_limit{};
  int32_t s_samples{};
  double s_every{};
  size_t n_range = 0;
  double s_rank{};
  int32_t s_last{};
  size_t n_range_1 = 0;
  size_t o_1 = 0;
  uint32_t* k_sorted = nullptr;
  float s_threshold{};
  ops::FilterOutputs<int32_t> a_chosen;
  int32_t* v_chosen = nullptr;
  size_t n_chosen = 0;
  const uint32_t* k_largest = nullptr;
  uint32_t l_largest = 0;
  ops::Candidates<uint32_t> a_largest;
  size_t n_largest = 0;
  uint32_t* p_largest = nullptr;
  int32_t* v_largest = nullptr;
  int32_t* v_index = nullptr;
  size_t o_2 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_sorted([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_sample([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline uint32_t key_largest([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_chosen([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_largest([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline float at_value([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n) return {};
  [[maybe_unused]] const float x1 = f->gradient[i] * f->scale;
  [[maybe_unused]] const float x2 = kStates ? f->params.p_residual_factor * f->before_residual[i] : 0.0f;
  [[maybe_unused]] const float x3 = (x1 + x2);
  return x3;
}

template <bool kStates>
inline float at_sorted([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};
  [[maybe_unused]] const float x1 = at_sample<kStates>(
      f, static_cast<int32_t>(ops::positionOfRank(f->k_sorted, f->n_range, static_cast<size_t>(i))));
  return x1;
}

template <bool kStates>
inline float at_sample([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};
  [[maybe_unused]] const float x1 = ops::absolute(at_value<kStates>(
      f, ops::uniformInt(ops::philoxWord(f->random, 0u, static_cast<uint64_t>(i)),
                         ops::toInt(ops::floorOf((static_cast<double>(i) * f->s_every))),
                         ops::toInt(ops::floorOf((static_cast<double>(ops::addInt(i, 1)) * f->s_every))))));
  return x1;
}

template <bool kStates>
inline uint32_t key_largest([[maybe_unused]] const Frame* f, int32_t i) {
  [[maybe_unused]] const int32_t x1 = f->v_chosen[i];
  [[maybe_unused]] const float x2 = (-ops::absolute(at_value<kStates>(f, x1)));
  return ops::orderKey((x2));
}

template <bool kStates>
inline int32_t at_chosen([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_chosen) return {};
  [[maybe_unused]] const int32_t x1 = f->v_chosen[i];
  return x1;
}

template <bool kStates>
inline int32_t at_largest([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_largest) return {};
  [[maybe_unused]] const int32_t x1 = f->v_largest[i];
  return x1;
}

template <bool kStates>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto s_every = f->s_every;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        alignas(64) uint32_t w_0[kTile];
        philoxTile<level>(f->random, 0u, tile, count, w_0);
        uint32_t* const k_sorted = f->k_sorted + tile;
        alignas(64) int32_t s_x1[kTile + kApart];
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = ops::uniformInt(
              w_0[i],
              ops::toInt(ops::floorOf(
                  (static_cast<double>((static_cast<int32_t>(tile) + static_cast<int32_t>(i))) * s_every))),
              ops::toInt(ops::floorOf((static_cast<double>(ops::addInt(
                                           (static_cast<int32_t>(tile) + static_cast<int32_t>(i)), 1)) *
                                       s_every))));
          s_x1[i] = x1;
        }
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          const int32_t x1 = s_x1[i];
          [[maybe_unused]] const float x2 = ops::absolute(at_value<kStates>(f, x1));
          [[maybe_unused]] const float x3 = (-x2);
          k_sorted[i] = ops::orderKey((x3));
        }
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
      [[maybe_unused]] const auto s_threshold = f->s_threshold;
      ops::Appender<int32_t>& a_chosen = f->a_chosen[chunk];
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const gradient = f->gradient + tile;
        const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
        struct {
          alignas(64) int32_t x5[kTile + kApart];
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
            [[maybe_unused]] const bool x4 =
                static_cast<bool>((ops::absolute(x3) >= s_threshold) & (x3 != 0x0.0p+0f));
            [[maybe_unused]] const int32_t x5 = x4 != 0 ? 1 : 0;
            if (kStates) bad += ops::isFinite(x3) ? 0 : 1;
            greatest = ops::greaterMagnitude(greatest, x1);
            t.x5[i] = x5;
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
        a_chosen.added(
            compactIndices<level>(t.x5, count, static_cast<int32_t>(tile), a_chosen.reserve(count + 16)));
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
      auto a_largest = f->a_largest[chunk];
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const int32_t* const v_chosen = f->v_chosen + tile;
        struct {
          alignas(64) uint32_t codes_x3[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_chosen[i];
          [[maybe_unused]] const float x2 = (-ops::absolute(at_value<kStates>(f, x1)));
          [[maybe_unused]] const uint32_t x3 = ops::orderKey((x2));
          t.codes_x3[i] = x3;
        }
        a_largest.template add<level>(t.codes_x3, count, tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kStates>
struct Loop3 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      auto a_largest = f->a_largest[chunk];
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const int32_t* const v_chosen = f->v_chosen + tile;
        struct {
          alignas(64) uint32_t codes_x3[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_chosen[i];
          [[maybe_unused]] const float x2 = (-ops::absolute(at_value<kStates>(f, x1)));
          [[maybe_unused]] const uint32_t x3 = ops::orderKey((x2));
          t.codes_x3[i] = x3;
        }
        a_largest.template add<level>(t.codes_x3, count, tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kStates>
struct Loop4 {
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

class GraddropCodec final : public GeneratedCodec {
 public:
  GraddropCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<GraddropCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_ratio), static_cast<double>(params.p_sample_rate),
            static_cast<double>(params.p_residual_factor), static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_graddrop(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const int32_t s_n = static_cast<int32_t>(n);
    [[maybe_unused]] const int32_t s_limit = ops::toInt(
        ops::lesser(static_cast<double>(s_n), ops::ceilOf((static_cast<double>(s_n) * params.p_ratio))));
    [[maybe_unused]] const int32_t s_samples = ops::toInt(ops::lesser(
        static_cast<double>(s_n), ops::greater(ops::ceilOf((static_cast<double>(s_n) * params.p_sample_rate)),
                                               ops::ceilOf((0x1.0000000000000p+6 / params.p_ratio)))));
    [[maybe_unused]] const double s_every = static_cast<double>(
        (static_cast<float>(s_n) / (static_cast<float>(s_samples) * 0x1.0000000000000p+0f)));
    [[maybe_unused]] const size_t n_range = ops::asCount(s_samples);
    [[maybe_unused]] const double s_rank = (static_cast<double>(s_samples) * params.p_ratio);
    [[maybe_unused]] const int32_t s_last =
        ops::toInt(((s_samples < s_n) ? (s_rank + (0x1.0000000000000p+2 * ops::squareRoot(s_rank)))
                                      : static_cast<double>(ops::subtractInt(s_limit, 1))));
    [[maybe_unused]] const size_t n_range_1 = ops::asCount(s_n);
    [[maybe_unused]] const size_t most_largest = std::min(ops::asCount(s_limit), n_range_1);
    return 4 + ops::packedBytes(most_largest, 32u) + ops::packedBytes(most_largest, 32u);
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
    f.s_n = static_cast<int32_t>(f.n);
    f.s_limit = ops::toInt(ops::lesser(static_cast<double>(f.s_n),
                                       ops::ceilOf((static_cast<double>(f.s_n) * f.params.p_ratio))));
    f.s_samples = ops::toInt(
        ops::lesser(static_cast<double>(f.s_n),
                    ops::greater(ops::ceilOf((static_cast<double>(f.s_n) * f.params.p_sample_rate)),
                                 ops::ceilOf((0x1.0000000000000p+6 / f.params.p_ratio)))));
    f.s_every = static_cast<double>(
        (static_cast<float>(f.s_n) / (static_cast<float>(f.s_samples) * 0x1.0000000000000p+0f)));
    f.n_range = ops::asCount(f.s_samples);
    f.s_rank = (static_cast<double>(f.s_samples) * f.params.p_ratio);
    f.s_last =
        ops::toInt(((f.s_samples < f.s_n) ? (f.s_rank + (0x1.0000000000000p+2 * ops::squareRoot(f.s_rank)))
                                          : static_cast<double>(ops::subtractInt(f.s_limit, 1))));
    f.n_range_1 = ops::asCount(f.s_n);
    f.o_1 = 4;
    f.k_sorted = f.scratch.template take<uint32_t>(f.n_range);
    {
      const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.s_threshold = at_sorted<kStates>(&f, ops::lesser(f.s_last, ops::subtractInt(f.s_samples, 1)));
    {
      const ops::Chunks chunks(f.parallel, f.n_range_1, ops::kReduceBlock);
      f.a_chosen.resize(chunks.count(), chunks.each());
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop1<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.v_chosen = f.a_chosen.gathered(f.scratch, f.n_chosen);
    f.l_largest = ops::likelyLimit<uint32_t>(
        f.n_chosen, std::min(ops::asCount(f.s_limit), f.n_chosen),
        [&f](size_t i) { return key_largest<kStates>(&f, static_cast<int32_t>(i)); });
    {
      const ops::Chunks chunks(f.parallel, f.n_chosen, ops::kReduceBlock);
      f.a_largest.begin(chunks.count(), chunks.each(), f.l_largest);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop2<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.k_largest = f.a_largest.gathered(f.scratch);
    f.n_largest = std::min(ops::asCount(f.s_limit), f.n_chosen);
    f.p_largest = f.scratch.template take<uint32_t>(f.n_largest);
    if (f.a_largest.size() < f.n_largest) {
      f.l_largest = ops::kNoLimit<decltype(f.l_largest)>;
      {
        const ops::Chunks chunks(f.parallel, f.n_chosen, ops::kReduceBlock);
        f.a_largest.begin(chunks.count(), chunks.each(), f.l_largest);
        chunks.run([&f](size_t chunk, size_t begin, size_t end) {
          multiversion<Loop3<kStates>::template Kernel>(&f, begin, end, chunk);
        });
      }
      f.k_largest = f.a_largest.gathered(f.scratch);
    }
    ops::smallestSet(f.k_largest, f.a_largest.size(), f.n_largest, f.p_largest);
    f.a_largest.toPositions(f.p_largest, f.n_largest);
    f.v_largest = f.scratch.template take<int32_t>(f.n_largest);
    for (size_t i = 0; i < f.n_largest; ++i)
      f.v_largest[i] = at_chosen<kStates>(&f, static_cast<int32_t>(f.p_largest[i]));
    f.v_index = f.scratch.template take<int32_t>(f.n_largest);
    for (size_t i = 0; i < f.n_largest; ++i) f.v_index[i] = at_largest<kStates>(&f, static_cast<int32_t>(i));
    if (const std::string fault = ops::indexFault(f.v_index, f.n_largest, f.n, true); !fault.empty())
      wrong("scatter: " + fault);
    if (const std::string fault = ops::indexFault(f.v_index, f.n_largest, f.n, false); !fault.empty())
      wrong("gather: " + fault);
    f.o_2 = 4 + ops::packedBytes(f.n_largest, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n_largest, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop4<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_largest)));
    f.bytes = 4 + ops::packedBytes(f.n_largest, 32u) + ops::packedBytes(f.n_largest, 32u);
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
      refuse("the requirement in line 32 does not hold");
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
  params.p_sample_rate = static_cast<double>(
      checkedOption(options, "sample_rate", options.number("sample_rate"), Interval{0.0, 1.0, true, false}));
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<GraddropCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_graddrop
