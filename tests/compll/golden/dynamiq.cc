// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/dynamiq.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_dynamiq();

namespace hipress::generated::codec_dynamiq {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "dynamiq",
      34u,
      "2 to 8 bits per value: blocks of greater values get more, in a fixed budget (as in DynamiQ, arXiv "
      "2602.08923).",
      {{"bits", "5.1", "Per value on average, scales included: double in [3, 8]"},
       {"block", "64", "How many values share a scale and a width: int in {32, 64, 128, 256}"},
       {"error_feedback", "false", "Keep what rounding dropped and add it to the next gradient: bool"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  double p_bits{};
  int32_t p_block{};
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
  size_t n_blocks = 0;
  float* v_blocks = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  int32_t s_spent{};
  size_t n_range = 0;
  size_t o_1 = 0;
  uint32_t* k_sorted = nullptr;
  int32_t s_limit{};
  int32_t* v_width = nullptr;
  uint32_t* g_packed_1 = nullptr;
  size_t n_packed_1 = 0;
  size_t n_words = 0;
  size_t o_3 = 0;
  int32_t* v_packed_1 = nullptr;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_sorted([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_wish([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_blocks([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline float at_blocks_1([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
inline int32_t at_packed_1([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_blocks) return {};
  [[maybe_unused]] const float x1 = f->v_blocks[i];
  [[maybe_unused]] const float x2 = f->v_blocks_1[i];
  [[maybe_unused]] const int32_t x3 = ops::toUint(
      ops::addInt(
          ops::lesser(ops::shiftRight(ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16), 32639),
          (((-x1) > x2) ? 32768 : 0)),
      16u);
  return x3;
}

template <bool kStates>
inline int32_t at_sorted([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};
  [[maybe_unused]] const int32_t x1 = at_wish<kStates>(
      f, static_cast<int32_t>(ops::positionOfRank(f->k_sorted, f->n_range, static_cast<size_t>(i))));
  return x1;
}

template <bool kStates>
inline int32_t at_wish([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};
  [[maybe_unused]] const int32_t x1 =
      ops::subtractInt(ops::addInt(32767, ops::multiplyInt(128, ops::remainderInt(i, 6))),
                       (at_scale<kStates>(f, ops::divideInt(i, 6)) & 32767));
  return x1;
}

template <bool kStates>
inline float at_blocks([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_blocks) return {};
  [[maybe_unused]] const float x1 = f->v_blocks[i];
  return x1;
}

template <bool kStates>
inline float at_blocks_1([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_blocks_1) return {};
  [[maybe_unused]] const float x1 = f->v_blocks_1[i];
  return x1;
}

template <bool kStates>
inline int32_t at_packed_1([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_packed_1) return {};
  [[maybe_unused]] const int32_t x1 = f->v_packed_1[i];
  return x1;
}

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
      ops::Scratch scratch;
      float* const partials_blocks = scratch.template take<float>(size / ops::kReduceBlock + 1);
      float* const partials_blocks_1 = scratch.template take<float>(size / ops::kReduceBlock + 1);
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        RunReducer<level, float, ops::Least> reduce_blocks(partials_blocks, ops::Least{});
        RunReducer<level, float, ops::Greatest> reduce_blocks_1(partials_blocks_1, ops::Greatest{});
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const gradient = f->gradient + tile;
          const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
          auto group_reduce_blocks = reduce_blocks.lanes();
          auto group_reduce_blocks_1 = reduce_blocks_1.lanes();
          const size_t whole = count / kLanes * kLanes;
          for (size_t group = 0; group < whole; group += kLanes) {
            alignas(64) float lanes_x3[kLanes];
#pragma GCC ivdep
            for (size_t lane = 0; lane < kLanes; ++lane) {
              const size_t i = group + lane;
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              lanes_x3[lane] = x3;
            }
            group_reduce_blocks.combine(lanes_x3);
            group_reduce_blocks_1.combine(lanes_x3);
          }
          group_reduce_blocks.store();
          group_reduce_blocks_1.store();
          reduce_blocks.combined(whole);
          reduce_blocks_1.combined(whole);
          if (whole != count) {
            alignas(64) float lanes_x3[kLanes];
            for (size_t lane = 0; lane < count - whole; ++lane) {
              const size_t i = whole + lane;
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              lanes_x3[lane] = x3;
            }
            reduce_blocks.feed(lanes_x3, count - whole);
            reduce_blocks_1.feed(lanes_x3, count - whole);
          }
        }
        f->v_blocks[block] = ops::Least{}(0x0.0p+0f, reduce_blocks.finish());
        f->v_blocks_1[block] = ops::Greatest{}(0x0.0p+0f, reduce_blocks_1.finish());
        [[maybe_unused]] const float b_blocks = f->v_blocks[block];
        [[maybe_unused]] const float b_blocks_1 = f->v_blocks_1[block];
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

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        uint32_t* const k_sorted = f->k_sorted + tile;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = ops::subtractInt(
              ops::addInt(32767, ops::multiplyInt(
                                     128, ops::remainderInt(
                                              (static_cast<int32_t>(tile) + static_cast<int32_t>(i)), 6))),
              (at_scale<kStates>(f,
                                 ops::divideInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), 6)) &
               32767));
          [[maybe_unused]] const int32_t x2 = ops::absolute(x1);
          k_sorted[i] = ops::orderKey((x2));
        }
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
      [[maybe_unused]] const auto s_limit = f->s_limit;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        int32_t* const to_v_width = f->v_width + tile;
        const float* const v_blocks = f->v_blocks + tile;
        const float* const v_blocks_1 = f->v_blocks_1 + tile;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const float x1 = v_blocks[i];
          [[maybe_unused]] const float x2 = v_blocks_1[i];
          [[maybe_unused]] const int32_t x3 = ops::toUint(
              ops::addInt(
                  ops::lesser(ops::shiftRight(ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16),
                              32639),
                  (((-x1) > x2) ? 32768 : 0)),
              16u);
          [[maybe_unused]] const int32_t x4 = x3;
          [[maybe_unused]] const int32_t x5 = s_limit;
          [[maybe_unused]] const int32_t x6 = ops::addInt(
              2,
              ops::greater(
                  ops::lesser(ops::shiftRight(ops::subtractInt(ops::addInt((x4 & 32767), x5), 32640), 7), 6),
                  0));
          to_v_width[i] = x6;
        }
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
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const float x100001 = at_blocks<kStates>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const float x100002 = at_blocks_1<kStates>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const int32_t x100003 = ops::toUint(
            ops::addInt(
                ops::lesser(
                    ops::shiftRight(ops::addInt(ops::bitsOf(ops::greater(x100002, (-x100001))), 65535), 16),
                    32639),
                (((-x100001) > x100002) ? 32768 : 0)),
            16u);
        [[maybe_unused]] const int32_t x100004 = f->v_width[block];
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const gradient = f->gradient + tile;
          const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
          struct {
            alignas(64) uint8_t codes_x9[kBlockTile + kApart];
            alignas(64) float x10[kBlockTile + kApart];
          } t;
          int32_t greatest = 0;
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            [[maybe_unused]] const int32_t x4 = x100003;
            [[maybe_unused]] const int32_t x5 = x100004;
            [[maybe_unused]] const float x6 =
                ((x100003 > 0) ? ops::greater(ops::roundOf((x3 / (ops::floatOf(ops::shiftLeft(x4, 16)) /
                                                                  static_cast<float>(ops::shiftLeft(
                                                                      1, ops::subtractInt(x5, 1)))))),
                                              (0x1.0000000000000p+0f - static_cast<float>(ops::shiftLeft(
                                                                           1, ops::subtractInt(x100004, 1)))))
                               : 0x0.0p+0f);
            [[maybe_unused]] const int32_t x7 = x100003;
            [[maybe_unused]] const int32_t x8 = x100004;
            [[maybe_unused]] const int32_t x9 =
                ops::toUint((static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x100004, 1))) - x6), 8u);
            [[maybe_unused]] const float x10 =
                (x3 - (x6 * (ops::floatOf(ops::shiftLeft(x7, 16)) /
                             static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x8, 1))))));
            greatest = ops::greaterMagnitude(greatest, kStates ? x10 : x1);
            t.codes_x9[i] = static_cast<uint8_t>(x9);
            if (kStates) t.x10[i] = x10;
          }
          allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
          packTileOfBlock<level>(t.codes_x9, tile - first, count, f->v_width[block],
                                 f->v_packed_1 + f->g_packed_1[block]);
          if (kStates) storeTile<level>(f->after_residual + tile, t.x10, count, f->stream);
        }
      }
      if (kStates && f->stream) streamFence();
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
        const float* const v_blocks = f->v_blocks + tile;
        const float* const v_blocks_1 = f->v_blocks_1 + tile;
        struct {
          alignas(64) uint16_t codes_x3[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const float x1 = v_blocks[i];
          [[maybe_unused]] const float x2 = v_blocks_1[i];
          [[maybe_unused]] const int32_t x3 = ops::toUint(
              ops::addInt(
                  ops::lesser(ops::shiftRight(ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16),
                              32639),
                  (((-x1) > x2) ? 32768 : 0)),
              16u);
          t.codes_x3[i] = static_cast<uint16_t>(x3);
        }
        copyTile(t.codes_x3, 2 * count, f->message + f->o_3 + 2 * tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kStates>
struct Loop5 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        struct {
          alignas(64) int32_t x1[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 =
              at_packed_1<kStates>(f, (static_cast<int32_t>(tile) + static_cast<int32_t>(i)));
          t.x1[i] = x1;
        }
        copyTile(t.x1, 4 * count, f->message + f->o_1 + 4 * tile);
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
  size_t n_words = 0;
  const int32_t* v_words = nullptr;
  int32_t s_limit{};
  size_t n_scale = 0;
  const uint16_t* v_scale = nullptr;
  size_t n_unpacked = 0;
  int32_t* v_width = nullptr;
  uint32_t* g_words_width = nullptr;
};

template <bool kAccumulate>
inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_scale) return {};
  [[maybe_unused]] const int32_t x1 = f->v_scale[i];
  return x1;
}

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto s_limit = f->s_limit;
      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        int32_t* const to_v_width = f->v_width + tile;
        const uint16_t* const v_scale = f->v_scale + tile;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const int32_t x1 = v_scale[i];
          [[maybe_unused]] const int32_t x2 = x1;
          [[maybe_unused]] const int32_t x3 = s_limit;
          [[maybe_unused]] const int32_t x4 = ops::addInt(
              2,
              ops::greater(
                  ops::lesser(ops::shiftRight(ops::subtractInt(ops::addInt((x2 & 32767), x3), 32640), 7), 6),
                  0));
          to_v_width[i] = x4;
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

template <bool kAccumulate>
struct Loop1 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const int32_t x100001 = at_scale<kAccumulate>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const int32_t x100002 = f->v_width[block];
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          float* const output = f->output + tile;
          prefetchElements(output + kBlockTile, count);
          alignas(64) BlockCode<level> u_words_width[kBlockTile];
          unpackTileOfBlock<level>(f->v_words + f->g_words_width[block], tile - first, count,
                                   f->v_width[block], u_words_width);
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const int32_t x1 = u_words_width[i];
            [[maybe_unused]] const int32_t x2 = x100001;
            [[maybe_unused]] const int32_t x3 = x100002;
            [[maybe_unused]] const float x4 =
                (static_cast<float>(ops::subtractInt(ops::shiftLeft(1, ops::subtractInt(x100002, 1)), x1)) *
                 (ops::floatOf(ops::shiftLeft(x2, 16)) /
                  static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x3, 1)))));
            output[i] = kAccumulate ? output[i] + x4 : x4;
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class DynamiqCodec final : public GeneratedCodec {
 public:
  DynamiqCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<DynamiqCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_bits), static_cast<double>(params.p_block),
            static_cast<double>(params.p_error_feedback), static_cast<double>(params.p_residual_factor),
            static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_dynamiq(); }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const size_t n_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
    [[maybe_unused]] const int32_t s_spent = ops::toInt(
        ops::floorOf((((params.p_bits - 0x1.0000000000000p+1) -
                       static_cast<double>((0x1.0000000000000p+4f / static_cast<float>(params.p_block)))) *
                      static_cast<double>(static_cast<int32_t>(n_blocks)))));
    [[maybe_unused]] const size_t n_range = ops::asCount(ops::multiplyInt(6, static_cast<int32_t>(n_blocks)));
    [[maybe_unused]] const size_t most_words =
        std::min(ops::asCount(ops::multiplyInt(
                     ops::addInt(ops::multiplyInt(2, static_cast<int32_t>(n_blocks)), s_spent),
                     ops::divideInt(params.p_block, 32))),
                 n);
    return 4 + ops::packedBytes(most_words, 32u) + 2 + ops::packedBytes(most_blocks, 16u);
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
    f.n_blocks = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_blocks = f.scratch.template take<float>(f.n_blocks);
    f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
    f.v_blocks_1 = f.scratch.template take<float>(f.n_blocks_1);
    f.s_spent = ops::toInt(
        ops::floorOf((((f.params.p_bits - 0x1.0000000000000p+1) -
                       static_cast<double>((0x1.0000000000000p+4f / static_cast<float>(f.params.p_block)))) *
                      static_cast<double>(static_cast<int32_t>(f.n_blocks)))));
    f.n_range = ops::asCount(ops::multiplyInt(6, static_cast<int32_t>(f.n_blocks)));
    f.o_1 = 4;
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.k_sorted = f.scratch.template take<uint32_t>(f.n_range);
    {
      const ops::Chunks chunks(f.parallel, f.n_range, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop1<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.s_limit = ops::toUint(at_sorted<kStates>(&f, f.s_spent), 16u);
    f.v_width = f.scratch.template take<int32_t>(f.n_blocks);
    {
      const ops::Chunks chunks(f.parallel, f.n_blocks, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop2<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.g_packed_1 = f.scratch.template take<uint32_t>(f.n_blocks);
    f.n_packed_1 = ops::blockStarts(f.v_width, f.n_blocks, ops::asCount(static_cast<int32_t>(f.n)),
                                    static_cast<size_t>(ops::atLeastOne(f.params.p_block)), f.g_packed_1);
    f.n_words = std::min(ops::asCount(ops::multiplyInt(
                             ops::addInt(ops::multiplyInt(2, static_cast<int32_t>(f.n_blocks)), f.s_spent),
                             ops::divideInt(f.params.p_block, 32))),
                         f.n_packed_1);
    f.o_3 = 4 + ops::packedBytes(f.n_words, 32u) + 2;
    f.v_packed_1 = f.scratch.template take<int32_t>(f.n_packed_1);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop3<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    {
      const ops::Chunks chunks(f.parallel, f.n_blocks, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop4<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    {
      const ops::Chunks chunks(f.parallel, f.n_words, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop5<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_words)));
    ops::putScalar<uint16_t>(f.message + 4 + ops::packedBytes(f.n_words, 32u),
                             static_cast<uint16_t>(f.s_limit));
    f.bytes = 4 + ops::packedBytes(f.n_words, 32u) + 2 + ops::packedBytes(f.n_blocks, 16u);
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
    f.n_words = reader.count("words", f.s_count);
    f.v_words = reader.template vector<int32_t>("words", f.n_words);
    f.s_limit = reader.scalarUint16("limit");
    f.n_scale = reader.count("scale", ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
    f.v_scale = reader.template vector<uint16_t>("scale", f.n_scale);
    reader.finish();
    f.n_unpacked = ops::asCount(static_cast<int32_t>(f.n));
    f.v_width = f.scratch.template take<int32_t>(f.n_scale);
    {
      const ops::Chunks chunks(f.parallel, f.n_scale, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kAccumulate>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.g_words_width = f.scratch.template take<uint32_t>(f.n_scale);
    if (ops::blockStarts(f.v_width, f.n_scale, ops::asCount(static_cast<int32_t>(f.n)),
                         static_cast<size_t>(ops::atLeastOne(f.params.p_block)),
                         f.g_words_width) != f.n_words)
      refuse("unpack_blocks: there are not as many words as the widths need");
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(f.params.p_block)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop1<kAccumulate>::template Kernel>(&f, begin, end, chunk);
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
  params.p_bits = static_cast<double>(
      checkedOption(options, "bits", options.number("bits"), Interval{3.0, 8.0, false, false}));
  params.p_block = static_cast<int32_t>(
      checkedOption(options, "block", options.integer("block"), OneOf{32.0, 64.0, 128.0, 256.0}));
  params.p_error_feedback = options.boolean("error_feedback");
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<DynamiqCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_dynamiq
