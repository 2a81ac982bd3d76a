// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/thc.cll.
#include "core/codec/generated_codec.h"
#include "core/ops/cpu/generated.h"

extern "C" const hipress::cuda::CudaCodec* hipress_cuda_codec_thc();

namespace hipress::generated::codec_thc {
namespace {

using namespace hipress::ops;

const GeneratedCodecInterface& interface() {
  static const GeneratedCodecInterface face{
      "thc",
      41u,
      "THC (Li et al., 2024), uniform: signs and a Hadamard transform make values nearly normal, so ranks "
      "agree on norms of blocks. A short last block stays as it is, and its greatest value counts. The paper "
      "draws new signs in each round, decode knows no round.",
      {{"levels", "7",
        "The greatest integer of a rank: the sum over all ranks is 127 at most: int in [1, 127]"},
       {"reach", "2.5",
        "How many standard deviations this integer stands for; greater values become it: float in [1, 8]"},
       {"stochastic", "false", "Round at random without bias, in place of to the nearest: bool"},
       {"error_feedback", "true",
        "Keep what is cut off or rounded away and add it to the next gradient: bool"}},
      {{"residual", 1}},
      ""};
  return face;
}

struct Params {
  int32_t p_levels{};
  float p_reach{};
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
  size_t n_power = 0;
  double* v_power = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  size_t n_range = 0;
  size_t n_range_1 = 0;
  size_t n_range_2 = 0;
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
      const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      ops::Scratch scratch;
      double* const partials_power = scratch.template take<double>(size / ops::kReduceBlock + 1);
      float* const partials_blocks_1 = scratch.template take<float>(size / ops::kReduceBlock + 1);
      [[maybe_unused]] const auto p_reach = f->params.p_reach;
      ops::HadamardBlocks<level, 1024> blocks_exact(0x1.0000000000000p-5f);
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      alignas(64) float block_exact[1024];
      ops::HadamardBlocks<level, 1024> blocks_sent(0x1.0000000000000p-5f);
      alignas(64) float block_sent[1024];
      const size_t together = size * ops::blocksTogether(size);
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        double s_x100004[ops::kMostTogether];
        float s_x100005[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          RunReducer<level, double, ops::Sum> reduce_power(partials_power, ops::Sum{});
          RunReducer<level, float, ops::Greatest> reduce_blocks_1(partials_blocks_1, ops::Greatest{});
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            auto group_reduce_power = reduce_power.lanes();
            auto group_reduce_blocks_1 = reduce_blocks_1.lanes();
            const size_t whole = count / kLanes * kLanes;
            for (size_t group = 0; group < whole; group += kLanes) {
              alignas(64) double lanes_x4[kLanes];
              alignas(64) float lanes_x5[kLanes];
#pragma GCC ivdep
              for (size_t lane = 0; lane < kLanes; ++lane) {
                const size_t i = group + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
                [[maybe_unused]] const float x5 = ops::absolute(x3);
                lanes_x4[lane] = x4;
                lanes_x5[lane] = x5;
              }
              group_reduce_power.combine(lanes_x4);
              group_reduce_blocks_1.combine(lanes_x5);
            }
            group_reduce_power.store();
            group_reduce_blocks_1.store();
            reduce_power.combined(whole);
            reduce_blocks_1.combined(whole);
            if (whole != count) {
              alignas(64) double lanes_x4[kLanes];
              alignas(64) float lanes_x5[kLanes];
              for (size_t lane = 0; lane < count - whole; ++lane) {
                const size_t i = whole + lane;
                [[maybe_unused]] const float x1 = gradient[i] * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
                [[maybe_unused]] const float x5 = ops::absolute(x3);
                lanes_x4[lane] = x4;
                lanes_x5[lane] = x5;
              }
              reduce_power.feed(lanes_x4, count - whole);
              reduce_blocks_1.feed(lanes_x5, count - whole);
            }
          }
          f->v_power[block] = ops::Sum{}(0x0.0p+0, reduce_power.finish());
          f->v_blocks_1[block] = ops::Greatest{}(0x0.0p+0f, reduce_blocks_1.finish());
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const double b_power = f->v_power[block];
          [[maybe_unused]] const float b_blocks_1 = f->v_blocks_1[block];
          [[maybe_unused]] const double x100001 = b_power;
          [[maybe_unused]] const float x100002 = b_blocks_1;
          [[maybe_unused]] const float x100003 = static_cast<float>(
              ((ops::subtractInt(static_cast<int32_t>(f->n),
                                 ops::multiplyInt(static_cast<int32_t>(block), 1024)) < 1024)
                   ? static_cast<double>(x100002)
                   : ops::lesser(
                         (static_cast<double>(p_reach) * ops::squareRoot((x100001 / 0x1.0000000000000p+10))),
                         0x1.fffffd586b834p+127)));
          [[maybe_unused]] const double x100004 =
              ((x100003 > 0x0.0p+0f) ? (static_cast<double>(p_levels) / static_cast<double>(x100003))
                                     : 0x0.0p+0);
          [[maybe_unused]] const float x100005 =
              ops::lesser((x100003 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
          ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100003));
          s_x100004[block - from / size] = x100004;
          s_x100005[block - from / size] = x100005;
        }
        alignas(64) uint16_t drawn_0[kBlockTile];
        if (p_stochastic)
          if (together <= kBlockTile) philoxTile<level>(f->random, 0u, from, until - from, drawn_0);
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const double x100004 = s_x100004[block - from / size];
          const float x100005 = s_x100005[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            struct {
              alignas(64) float x5[kBlockTile + kApart];
            } t;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const int32_t x4 = ops::multiplyInt(
                  (ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), (-1640531535)) ^
                   ops::shiftRight(ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)),
                                                    (-1640531535)),
                                   15)),
                  (-2048144777));
              [[maybe_unused]] const float x5 =
                  static_cast<float>(((ops::multiplyInt((x4 ^ ops::shiftRight(x4, 13)), (-1028477379)) < 0)
                                          ? (static_cast<double>((-x3)) * x100004)
                                          : (static_cast<double>(x3) * x100004)));
              t.x5[i] = x5;
            }
            blocks_exact.add(t.x5, count);
          }
          blocks_exact.finish(block_exact);
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            const float* const v_exact = block_exact + (tile - first);
            if (p_stochastic)
              if (together > kBlockTile) philoxTile<level>(f->random, 0u, tile, count, drawn_0);
            const uint16_t* const w_0 = drawn_0 + (together <= kBlockTile ? tile - from : 0);
            struct {
              alignas(64) float x3[kBlockTile + kApart];
              alignas(64) uint8_t codes_x4[kBlockTile + kApart];
            } t;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = v_exact[i];
              [[maybe_unused]] const int32_t x2 = ops::toSigned(
                  ops::greater(
                      ops::lesser(
                          (p_stochastic ? ops::floorOf((x1 + ops::uniform(ops::halfWord(w_0[i]), 0x0.0p+0f,
                                                                          0x1.0000000000000p+0f)))
                                        : ops::roundOf(x1)),
                          static_cast<float>(p_levels)),
                      static_cast<float>(ops::negateInt(p_levels))),
                  8u);
              [[maybe_unused]] const float x3 = static_cast<float>(x2);
              [[maybe_unused]] const int32_t x4 = (x2 & 255);
              t.x3[i] = x3;
              t.codes_x4[i] = static_cast<uint8_t>(x4);
            }
            blocks_sent.add(t.x3, count);
            packTile<level>(t.codes_x4, count, 8u, f->message + f->o_1, tile);
          }
          blocks_sent.finish(block_sent);
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            if (ahead != 0) prefetchElements(f->gradient + tile + ahead, count);
            if (kStates && ahead != 0) prefetchElements(f->before_residual + tile + ahead, count);
            const float* const gradient = f->gradient + tile;
            const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
            const float* const v_sent = block_sent + (tile - first);
            struct {
              alignas(64) float x9[kBlockTile + kApart];
            } t;
            int32_t greatest = 0;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = v_sent[i];
              [[maybe_unused]] const float x5 = x4;
              [[maybe_unused]] const int32_t x6 = (static_cast<int32_t>(tile) + static_cast<int32_t>(i));
              [[maybe_unused]] const double x7 = static_cast<double>(x100005);
              [[maybe_unused]] const int32_t x8 =
                  ops::multiplyInt((ops::multiplyInt(x6, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(x6, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x9 =
                  (x3 -
                   static_cast<float>(((ops::multiplyInt((x8 ^ ops::shiftRight(x8, 13)), (-1028477379)) < 0)
                                           ? (static_cast<double>((-x5)) * x7)
                                           : (static_cast<double>(x5) * x7))));
              greatest = ops::greaterMagnitude(greatest, kStates ? x9 : x1);
              if (kStates) t.x9[i] = x9;
            }
            allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
            if (kStates) storeTile<level>(f->after_residual + tile, t.x9, count, f->stream);
          }
        }
      }
      if (kStates && f->stream) streamFence();
      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace encoding

namespace summarising {

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
  size_t n_power = 0;
  double* v_power = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  size_t n_range = 0;
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
      const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      ops::Scratch scratch;
      double* const partials_power = scratch.template take<double>(size / ops::kReduceBlock + 1);
      float* const partials_blocks_1 = scratch.template take<float>(size / ops::kReduceBlock + 1);
      [[maybe_unused]] const auto p_reach = f->params.p_reach;
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        RunReducer<level, double, ops::Sum> reduce_power(partials_power, ops::Sum{});
        RunReducer<level, float, ops::Greatest> reduce_blocks_1(partials_blocks_1, ops::Greatest{});
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const gradient = f->gradient + tile;
          const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
          auto group_reduce_power = reduce_power.lanes();
          auto group_reduce_blocks_1 = reduce_blocks_1.lanes();
          alignas(64) int32_t all_greatest[kLanes] = {};
          LaneGroup<level, int32_t, ops::Greatest> group_greatest(all_greatest, true);
          const size_t whole = count / kLanes * kLanes;
          for (size_t group = 0; group < whole; group += kLanes) {
            alignas(64) double lanes_x4[kLanes];
            alignas(64) float lanes_x5[kLanes];
            alignas(64) int32_t lanes_greatest[kLanes] = {};
#pragma GCC ivdep
            for (size_t lane = 0; lane < kLanes; ++lane) {
              const size_t i = group + lane;
              int32_t& greatest = lanes_greatest[lane];
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
              [[maybe_unused]] const float x5 = ops::absolute(x3);
              greatest = ops::greaterMagnitude(greatest, x1);
              lanes_x4[lane] = x4;
              lanes_x5[lane] = x5;
            }
            group_reduce_power.combine(lanes_x4);
            group_reduce_blocks_1.combine(lanes_x5);
            group_greatest.combine(lanes_greatest);
          }
          group_reduce_power.store();
          group_reduce_blocks_1.store();
          reduce_power.combined(whole);
          reduce_blocks_1.combined(whole);
          group_greatest.store();
          for (const int32_t greatest : all_greatest) allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
          if (whole != count) {
            alignas(64) double lanes_x4[kLanes];
            alignas(64) float lanes_x5[kLanes];
            alignas(64) int32_t lanes_greatest[kLanes] = {};
            for (size_t lane = 0; lane < count - whole; ++lane) {
              const size_t i = whole + lane;
              int32_t& greatest = lanes_greatest[lane];
              [[maybe_unused]] const float x1 = gradient[i] * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
              [[maybe_unused]] const float x5 = ops::absolute(x3);
              greatest = ops::greaterMagnitude(greatest, x1);
              lanes_x4[lane] = x4;
              lanes_x5[lane] = x5;
            }
            reduce_power.feed(lanes_x4, count - whole);
            reduce_blocks_1.feed(lanes_x5, count - whole);
            for (const int32_t greatest : lanes_greatest) allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
          }
        }
        f->v_power[block] = ops::Sum{}(0x0.0p+0, reduce_power.finish());
        f->v_blocks_1[block] = ops::Greatest{}(0x0.0p+0f, reduce_blocks_1.finish());
        [[maybe_unused]] const double b_power = f->v_power[block];
        [[maybe_unused]] const float b_blocks_1 = f->v_blocks_1[block];
        [[maybe_unused]] const double x100001 = b_power;
        [[maybe_unused]] const float x100002 = b_blocks_1;
        [[maybe_unused]] const float x100003 =
            static_cast<float>(((ops::subtractInt(static_cast<int32_t>(f->n),
                                                  ops::multiplyInt(static_cast<int32_t>(block), 1024)) < 1024)
                                    ? static_cast<double>(x100002)
                                    : ops::lesser((static_cast<double>(p_reach) *
                                                   ops::squareRoot((x100001 / 0x1.0000000000000p+10))),
                                                  0x1.fffffd586b834p+127)));
        ops::putScalar(f->message + f->o_0 + 4 * block, static_cast<float>(x100003));
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace summarising

namespace encoding_agreed {

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
  size_t n_most = 0;
  const float* v_most = nullptr;
  size_t n_range_1 = 0;
  size_t n_range_2 = 0;
  size_t o_0 = 0;
  size_t o_1 = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
};

template <bool kStates>
inline float at_most([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
inline float at_most([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_most) return {};
  [[maybe_unused]] const float x1 = f->v_most[i];
  return x1;
}

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
      const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      ops::HadamardBlocks<level, 1024> blocks_exact(0x1.0000000000000p-5f);
      const float scale = f->scale;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      alignas(64) float block_exact[1024];
      ops::HadamardBlocks<level, 1024> blocks_sent(0x1.0000000000000p-5f);
      alignas(64) float block_sent[1024];
      for ([[maybe_unused]] size_t first = begin, block = begin / size; first < end; first += size, ++block) {
        [[maybe_unused]] const size_t last = std::min(end, first + size);
        [[maybe_unused]] const float x100001 = at_most<kStates>(f, static_cast<int32_t>(block));
        [[maybe_unused]] const double x100002 =
            ((x100001 > 0x0.0p+0f) ? (static_cast<double>(p_levels) / static_cast<double>(x100001))
                                   : 0x0.0p+0);
        [[maybe_unused]] const float x100003 =
            ops::lesser((x100001 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const gradient = f->gradient + tile;
          const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
          struct {
            alignas(64) float x5[kBlockTile + kApart];
          } t;
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            [[maybe_unused]] const int32_t x4 = ops::multiplyInt(
                (ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), (-1640531535)) ^
                 ops::shiftRight(
                     ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), (-1640531535)),
                     15)),
                (-2048144777));
            [[maybe_unused]] const float x5 =
                static_cast<float>(((ops::multiplyInt((x4 ^ ops::shiftRight(x4, 13)), (-1028477379)) < 0)
                                        ? (static_cast<double>((-x3)) * x100002)
                                        : (static_cast<double>(x3) * x100002)));
            t.x5[i] = x5;
          }
          blocks_exact.add(t.x5, count);
        }
        blocks_exact.finish(block_exact);
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const v_exact = block_exact + (tile - first);
          alignas(64) uint16_t w_0[kBlockTile];
          if (p_stochastic) philoxTile<level>(f->random, 0u, tile, count, w_0);
          struct {
            alignas(64) float x3[kBlockTile + kApart];
            alignas(64) uint8_t codes_x4[kBlockTile + kApart];
          } t;
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = v_exact[i];
            [[maybe_unused]] const int32_t x2 = ops::toSigned(
                ops::greater(
                    ops::lesser(
                        (p_stochastic ? ops::floorOf((x1 + ops::uniform(ops::halfWord(w_0[i]), 0x0.0p+0f,
                                                                        0x1.0000000000000p+0f)))
                                      : ops::roundOf(x1)),
                        static_cast<float>(p_levels)),
                    static_cast<float>(ops::negateInt(p_levels))),
                8u);
            [[maybe_unused]] const float x3 = static_cast<float>(x2);
            [[maybe_unused]] const int32_t x4 = (x2 & 255);
            t.x3[i] = x3;
            t.codes_x4[i] = static_cast<uint8_t>(x4);
          }
          blocks_sent.add(t.x3, count);
          packTile<level>(t.codes_x4, count, 8u, f->message + f->o_1, tile);
        }
        blocks_sent.finish(block_sent);
        for (size_t tile = first; tile < last; tile += kBlockTile) {
          [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
          const float* const gradient = f->gradient + tile;
          const float* const before_residual = kStates ? f->before_residual + tile : nullptr;
          const float* const v_sent = block_sent + (tile - first);
          struct {
            alignas(64) float x9[kBlockTile + kApart];
          } t;
          int32_t greatest = 0;
#pragma GCC ivdep
          for (size_t i = 0; i < count; ++i) {
            [[maybe_unused]] const float x1 = gradient[i] * scale;
            [[maybe_unused]] const float x2 = kStates ? p_residual_factor * before_residual[i] : 0.0f;
            [[maybe_unused]] const float x3 = (x1 + x2);
            [[maybe_unused]] const float x4 = v_sent[i];
            [[maybe_unused]] const float x5 = x4;
            [[maybe_unused]] const int32_t x6 = (static_cast<int32_t>(tile) + static_cast<int32_t>(i));
            [[maybe_unused]] const double x7 = static_cast<double>(x100003);
            [[maybe_unused]] const int32_t x8 =
                ops::multiplyInt((ops::multiplyInt(x6, (-1640531535)) ^
                                  ops::shiftRight(ops::multiplyInt(x6, (-1640531535)), 15)),
                                 (-2048144777));
            [[maybe_unused]] const float x9 =
                (x3 -
                 static_cast<float>(((ops::multiplyInt((x8 ^ ops::shiftRight(x8, 13)), (-1028477379)) < 0)
                                         ? (static_cast<double>((-x5)) * x7)
                                         : (static_cast<double>(x5) * x7))));
            greatest = ops::greaterMagnitude(greatest, kStates ? x9 : x1);
            if (kStates) t.x9[i] = x9;
          }
          allBad += ops::isFiniteMagnitude(greatest) ? 0 : 1;
          if (kStates) storeTile<level>(f->after_residual + tile, t.x9, count, f->stream);
        }
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

      for (size_t tile = begin; tile < end; tile += kTile) {
        [[maybe_unused]] const size_t count = std::min(kTile, end - tile);
        const float* const v_most = f->v_most + tile;
        struct {
          alignas(64) float x1[kTile + kApart];
        } t;
#pragma GCC ivdep
        for (size_t i = 0; i < count; ++i) {
          [[maybe_unused]] const float x1 = v_most[i];
          t.x1[i] = x1;
        }
        copyTile(t.x1, 4 * count, f->message + f->o_0 + 4 * tile);
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace encoding_agreed

namespace decoding {

struct Frame {
  size_t n = 0;
  Params params;
  Parallel* parallel = nullptr;
  ops::Scratch scratch;
  std::atomic<int64_t> bad{0};
  float* output = nullptr;
  size_t n_most = 0;
  const float* v_most = nullptr;
  size_t n_level = 0;
  const uint8_t* v_level = nullptr;
  size_t n_range = 0;
};

template <bool kAccumulate>
inline float at_most([[maybe_unused]] const Frame* f, int32_t i);

template <bool kAccumulate>
inline float at_most([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_most) return {};
  [[maybe_unused]] const float x1 = f->v_most[i];
  return x1;
}

template <bool kAccumulate>
struct Loop0 {
  template <IsaLevel level>
  struct Kernel {
    static void run(Frame* f, size_t begin, size_t end, [[maybe_unused]] size_t chunk) {
      [[maybe_unused]] int64_t allBad = 0;
      const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      ops::HadamardBlocks<level, 1024> blocks_rotated(0x1.0000000000000p-5f);
      alignas(64) float block_rotated[1024];
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      const size_t together = size;
      [[maybe_unused]] const size_t ahead = together <= ops::kTogether ? together : 0;
      for (size_t from = begin; from < end; from += together) {
        const size_t until = std::min(end, from + together);
        float s_x100002[ops::kMostTogether];
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            alignas(64) int32_t u_level[kBlockTile];
            unpackTile<level>(f->v_level, tile, count, 8u, u_level);
            struct {
              alignas(64) float x2[kBlockTile + kApart];
            } t;
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const int32_t x1 = ops::signExtended(u_level[i], 8u);
              [[maybe_unused]] const float x2 = static_cast<float>(x1);
              t.x2[i] = x2;
            }
            blocks_rotated.add(t.x2, count);
          }
          blocks_rotated.finish(block_rotated);
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          [[maybe_unused]] const float x100001 = at_most<kAccumulate>(f, static_cast<int32_t>(block));
          [[maybe_unused]] const float x100002 =
              ops::lesser((x100001 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
          s_x100002[block - from / size] = x100002;
        }
        for ([[maybe_unused]] size_t first = from, block = from / size; first < until;
             first += size, ++block) {
          [[maybe_unused]] const size_t last = std::min(until, first + size);
          const float x100002 = s_x100002[block - from / size];
          for (size_t tile = first; tile < last; tile += kBlockTile) {
            [[maybe_unused]] const size_t count = std::min(kBlockTile, last - tile);
            float* const output = f->output + tile;
            prefetchElements(output + kBlockTile, count);
            const float* const v_rotated = block_rotated + (tile - first);
#pragma GCC ivdep
            for (size_t i = 0; i < count; ++i) {
              [[maybe_unused]] const float x1 = v_rotated[i];
              [[maybe_unused]] const double x2 = static_cast<double>(x100002);
              [[maybe_unused]] const int32_t x3 = ops::multiplyInt(
                  (ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)), (-1640531535)) ^
                   ops::shiftRight(ops::multiplyInt((static_cast<int32_t>(tile) + static_cast<int32_t>(i)),
                                                    (-1640531535)),
                                   15)),
                  (-2048144777));
              [[maybe_unused]] const float x4 =
                  static_cast<float>(((ops::multiplyInt((x3 ^ ops::shiftRight(x3, 13)), (-1028477379)) < 0)
                                          ? (static_cast<double>((-x1)) * x2)
                                          : (static_cast<double>(x1) * x2)));
              output[i] = kAccumulate ? output[i] + x4 : x4;
            }
          }
        }
      }

      if (allBad != 0) f->bad.fetch_add(allBad, std::memory_order_relaxed);
    }
  };
};

}  // namespace decoding

class ThcCodec final : public GeneratedCodec, public SummedEncoding {
 public:
  ThcCodec(const CodecOptions& given, const Params& values, bool keepsStates)
      : GeneratedCodec(interface(), given, keepsStates), params(values), options(given) {}

  std::shared_ptr<const Codec> forAggregate() const override {
    if (params.p_gradient_factor == 1.0f) return nullptr;
    Params merged = params;
    merged.p_gradient_factor = 0x1.0000000000000p+0f;
    return std::make_shared<ThcCodec>(options, merged, !states().empty());
  }

  std::vector<double> parameters() const override {
    return {static_cast<double>(params.p_levels),          static_cast<double>(params.p_reach),
            static_cast<double>(params.p_stochastic),      static_cast<double>(params.p_error_feedback),
            static_cast<double>(params.p_residual_factor), static_cast<double>(params.p_gradient_factor)};
  }
  float gradientFactor() const override { return params.p_gradient_factor; }
  const cuda::CudaCodec* kernels() const override { return hipress_cuda_codec_thc(); }

  const SummedEncoding* summed() const override { return this; }
  StatisticsReduction reduction() const override { return StatisticsReduction::kMax; }
  int64_t mostLevel() const override { return params.p_levels; }
  size_t statisticsBytes(size_t n) const override {
    if (n == 0) return 0;
    [[maybe_unused]] const size_t n_power = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t most_power = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n_power));
    return ops::packedBytes(most_power, 32u);
  }
  size_t statistics(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                    Bytes output) const override {
    return states.before.empty() ? statisticsWith<false>(input, states, context, output)
                                 : statisticsWith<true>(input, states, context, output);
  }
  size_t encodeAgreed(std::span<const float> input, ConstBytes known, const EncodeStates& states,
                      const EncodeContext& context, Bytes output) const override {
    return states.before.empty() ? encodeAgreedWith<false>(input, known, states, context, output)
                                 : encodeAgreedWith<true>(input, known, states, context, output);
  }

 protected:
  size_t bound(size_t n) const override {
    [[maybe_unused]] const size_t n_power = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t most_power = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
    [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n_power));
    [[maybe_unused]] const size_t n_range_1 = ops::asCount(static_cast<int32_t>(n));
    [[maybe_unused]] const size_t n_range_2 = ops::asCount(static_cast<int32_t>(n));
    return ops::packedBytes(most_power, 32u) + ops::packedBytes(n, 8u);
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
    f.n_power = ops::blockCount(f.n, ops::atLeastOne(1024));
    f.v_power = f.scratch.template take<double>(f.n_power);
    f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(1024));
    f.v_blocks_1 = f.scratch.template take<float>(f.n_blocks_1);
    f.n_range = ops::asCount(static_cast<int32_t>(f.n_power));
    f.n_range_1 = ops::asCount(static_cast<int32_t>(f.n));
    f.n_range_2 = ops::asCount(static_cast<int32_t>(f.n));
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_power, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(1024)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_power, 32u) + ops::packedBytes(f.n, 8u);
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }

  template <bool kStates>
  size_t statisticsWith(std::span<const float> input, [[maybe_unused]] const EncodeStates& states,
                        const EncodeContext& context, Bytes output) const {
    using namespace summarising;
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
    f.n_power = ops::blockCount(f.n, ops::atLeastOne(1024));
    f.v_power = f.scratch.template take<double>(f.n_power);
    f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(1024));
    f.v_blocks_1 = f.scratch.template take<float>(f.n_blocks_1);
    f.n_range = ops::asCount(static_cast<int32_t>(f.n_power));
    f.o_0 = 0;
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(1024)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_power, 32u);
    return f.bad.load(std::memory_order_relaxed) == 0 ? f.bytes : 0;
  }

  template <bool kStates>
  size_t encodeAgreedWith(std::span<const float> input, ConstBytes known,
                          [[maybe_unused]] const EncodeStates& states, const EncodeContext& context,
                          Bytes output) const {
    using namespace encoding_agreed;
    Frame f;
    f.n = input.size();
    f.params = params;
    f.parallel = context.parallel;
    f.gradient = input.data();
    f.scale = context.scale;
    f.random = {context.seed, context.step, context.tensor, context.firstElement};
    f.stream = input.size() >= ops::kStreamFrom;
    f.message = reinterpret_cast<uint8_t*>(output.data());
    ops::PayloadReader reader(this->name(), known, f.scratch);
    f.before_residual = kStates ? states.before[0] : nullptr;
    f.after_residual = kStates ? states.after[0] : nullptr;
    f.n_most = reader.count("most", ops::blocksOf(static_cast<int32_t>(f.n), 1024));
    f.v_most = reader.template vector<float>("most", f.n_most);
    reader.finish();
    f.n_range_1 = ops::asCount(static_cast<int32_t>(f.n));
    f.n_range_2 = ops::asCount(static_cast<int32_t>(f.n));
    f.o_0 = 0;
    f.o_1 = ops::packedBytes(f.n_most, 32u);
    {
      const ops::Chunks chunks(f.parallel, f.n, ops::blockAlignment(ops::atLeastOne(1024)));
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop0<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    {
      const ops::Chunks chunks(f.parallel, f.n_most, ops::kReduceBlock);
      chunks.run([&f](size_t chunk, size_t begin, size_t end) {
        multiversion<Loop1<kStates>::template Kernel>(&f, begin, end, chunk);
      });
    }
    f.bytes = ops::packedBytes(f.n_most, 32u) + ops::packedBytes(f.n, 8u);
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
    f.n_most = reader.count("most", ops::blocksOf(static_cast<int32_t>(f.n), 1024));
    f.v_most = reader.template vector<float>("most", f.n_most);
    f.n_level = reader.count("level", static_cast<int32_t>(f.n));
    f.v_level = reader.packed("level", f.n_level, 8u);
    reader.finish();
    f.n_range = ops::asCount(static_cast<int32_t>(f.n));
    {
      const ops::Chunks chunks(f.parallel, f.n_level, ops::blockAlignment(ops::atLeastOne(1024)));
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
  params.p_levels = static_cast<int32_t>(
      checkedOption(options, "levels", options.integer("levels"), Interval{1.0, 127.0, false, false}));
  params.p_reach = static_cast<float>(
      checkedOption(options, "reach", options.number("reach"), Interval{1.0, 8.0, false, false}));
  params.p_stochastic = options.boolean("stochastic");
  params.p_error_feedback = options.boolean("error_feedback");
  params.p_residual_factor =
      static_cast<float>(checkedFactor(options, "residual_factor", Interval{0.0, 1.0, false, false}));
  params.p_gradient_factor =
      static_cast<float>(checkedFactor(options, "gradient_factor", Interval{0.0, 1.0, true, false}));
  return std::make_shared<ThcCodec>(options, params, options.boolean("error_feedback"));
}

}  // namespace hipress::generated::codec_thc
