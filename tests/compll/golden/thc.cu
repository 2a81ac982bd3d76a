// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/thc.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_thc {

using namespace hipress;

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
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  uint8_t* message = nullptr;
  uint32_t* messageBytes = nullptr;
  uint32_t* error = nullptr;
  const uint8_t* payload = nullptr;
  size_t capacity = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
  size_t n_power = 0;
  double* v_power = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  size_t n_range = 0;
  size_t n_range_1 = 0;
  size_t n_range_2 = 0;
  size_t o_0 = 0;
  size_t o_1 = 0;
  float* x_exact = nullptr;
  float* v_exact = nullptr;
  double* r_power = nullptr;
  float* r_blocks_1 = nullptr;
  double* v_inverse = nullptr;
  float* x_sent = nullptr;
  float* v_sent = nullptr;
  float* v_scale = nullptr;
};

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE double operator()(double a, double b) const {
    [[maybe_unused]] const double x1 = (a + b);
    return x1;
  }
};

struct Combine1 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = ops::greater(a, b);
    return x1;
  }
};

template <bool kStates>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_power = ops::blockCount(f.n, ops::atLeastOne(1024));
        f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(1024));
        f.n_range = ops::asCount(static_cast<int32_t>(f.n_power));
        f.n_range_1 = ops::asCount(static_cast<int32_t>(f.n));
        f.n_range_2 = ops::asCount(static_cast<int32_t>(f.n));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_power, 32u);
      }
    });
    block.sync();
  }
};

template <bool kStates>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto r_power = f->r_power;
      [[maybe_unused]] const auto init_power = static_cast<double>(0x0.0p+0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      HIPRESS_SHARED double lanes_power[cuda::kUnitLanes];
      HIPRESS_SHARED float lanes_blocks_1[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          double own_power{};
          float own_blocks_1{};
          struct Given {
            float gradient;
            float before_residual;
          };
          cuda::eachOfLane<8>(
              first, last, t % ops::kLanes,
              [&](size_t place) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
              },
              [&](size_t place, const Given& given) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                [[maybe_unused]] const float x1 = given.gradient * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
                own_power = place < first + ops::kLanes ? static_cast<double>(x4)
                                                        : Combine0{f}(own_power, static_cast<double>(x4));
                [[maybe_unused]] const float x5 = ops::absolute(x3);
                own_blocks_1 = place < first + ops::kLanes
                                   ? static_cast<float>(x5)
                                   : Combine1{f}(own_blocks_1, static_cast<float>(x5));
              });
          lanes_power[cuda::placeOfLane(t)] = own_power;
          lanes_blocks_1[cuda::placeOfLane(t)] = own_blocks_1;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const double result_power =
              cuda::finishLanes(lanes_power + cuda::placeOfLane(t * ops::kLanes), last - first, Combine0{f});
          if (parts.isShort()) {
            v_power[unit] = Combine0{f}(init_power, result_power);
          } else {
            r_power[unit] = result_power;
          }
          const float result_blocks_1 = cuda::finishLanes(lanes_blocks_1 + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine1{f});
          if (parts.isShort()) {
            v_blocks_1[unit] = Combine1{f}(init_blocks_1, result_blocks_1);
          } else {
            r_blocks_1[unit] = result_blocks_1;
          }
        });
        block.sync();
      }
    }
  }
};

template <bool kStates>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto r_power = f->r_power;
      [[maybe_unused]] const auto init_power = static_cast<double>(0x0.0p+0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_power, init_power, v_power, Combine0{f});
      cuda::finishLongBlocks(block, parts, r_blocks_1, init_blocks_1, v_blocks_1, Combine1{f});
    }
  }
};

template <bool kStates>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_0 = f->message + f->o_0;
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto p_reach = f->params.p_reach;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto length = f->n_power;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          double v_power;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_power + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const double x1 = given.v_power;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const float x3 = static_cast<float>(
                  ((ops::subtractInt(static_cast<int32_t>(f->n), ops::multiplyInt(i, 1024)) < 1024)
                       ? static_cast<double>(x2)
                       : ops::lesser(
                             (static_cast<double>(p_reach) * ops::squareRoot((x1 / 0x1.0000000000000p+10))),
                             0x1.fffffd586b834p+127)));
              typed_0[i] = x3;
              [[maybe_unused]] const double x4 =
                  ((x3 > 0x0.0p+0f) ? (static_cast<double>(p_levels) / static_cast<double>(x3)) : 0x0.0p+0);
              v_inverse[i] = x4;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(1024)));
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto count_inverse = f->n_power;
      [[maybe_unused]] const auto x_exact = f->x_exact;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float gradient;
          float before_residual;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const int32_t x4 =
                  ops::multiplyInt((ops::multiplyInt(i, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(i, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x5 =
                  static_cast<float>(((ops::multiplyInt((x4 ^ ops::shiftRight(x4, 13)), (-1028477379)) < 0)
                                          ? (static_cast<double>((-x3)) *
                                             cuda::loadInside(v_inverse, count_inverse, blocks0.of(j)))
                                          : (static_cast<double>(x3) *
                                             cuda::loadInside(v_inverse, count_inverse, blocks0.of(j)))));
              x_exact[i] = x5;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel5 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::hadamardBlocks(block, f->x_exact, f->n, 1024u, 0x1.0000000000000p-5f, f->v_exact);
    }
  }
};

template <bool kStates>
struct Kernel6 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_exact = f->v_exact;
      [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
      const ops::RandomKey random = f->random;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto x_sent = f->x_sent;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto length = f->n;
      HIPRESS_SHARED uint16_t w_0[cuda::kTile];
      alignas(4) HIPRESS_SHARED uint8_t t_x4[cuda::kTile];
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        if (p_stochastic) cuda::philoxTile(block, random, 0u, tile, count, w_0);
        block.sync();
        struct Given {
          float v_exact;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_exact + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_exact;
              [[maybe_unused]] const int32_t x2 = ops::toSigned(
                  ops::greater(
                      ops::lesser(
                          (p_stochastic ? ops::floorOf((x1 + ops::uniform(ops::halfWord(w_0[j]), 0x0.0p+0f,
                                                                          0x1.0000000000000p+0f)))
                                        : ops::roundOf(x1)),
                          static_cast<float>(p_levels)),
                      static_cast<float>(ops::negateInt(p_levels))),
                  8u);
              [[maybe_unused]] const float x3 = static_cast<float>(x2);
              x_sent[i] = x3;
              [[maybe_unused]] const int32_t x4 = (x2 & 255);
              t_x4[j] = static_cast<uint8_t>(x4);
            });
        block.sync();
        cuda::packTile(block, t_x4, count, 8u, field_1, tile);
        block.sync();
      }
    }
  }
};

template <bool kStates>
struct Kernel7 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::hadamardBlocks(block, f->x_sent, f->n, 1024u, 0x1.0000000000000p-5f, f->v_sent);
    }
  }
};

template <bool kStates>
struct Kernel8 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto p_reach = f->params.p_reach;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto length = f->n_power;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          double v_power;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_power + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const double x1 = given.v_power;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const float x3 = static_cast<float>(
                  ((ops::subtractInt(static_cast<int32_t>(f->n), ops::multiplyInt(i, 1024)) < 1024)
                       ? static_cast<double>(x2)
                       : ops::lesser(
                             (static_cast<double>(p_reach) * ops::squareRoot((x1 / 0x1.0000000000000p+10))),
                             0x1.fffffd586b834p+127)));
              [[maybe_unused]] const float x4 =
                  ops::lesser((x3 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
              v_scale[i] = x4;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel9 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto v_sent = f->v_sent;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(1024)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_power;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n;
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float gradient;
          float before_residual;
          float v_sent;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{},
                           cuda::load(v_sent + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = given.v_sent;
              [[maybe_unused]] const float x5 = x4;
              [[maybe_unused]] const int32_t x6 = i;
              [[maybe_unused]] const double x7 =
                  static_cast<double>(cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const int32_t x8 =
                  ops::multiplyInt((ops::multiplyInt(x6, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(x6, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x9 =
                  (x3 -
                   static_cast<float>(((ops::multiplyInt((x8 ^ ops::shiftRight(x8, 13)), (-1028477379)) < 0)
                                           ? (static_cast<double>((-x5)) * x7)
                                           : (static_cast<double>(x5) * x7))));
              bad += ops::isFinite(kStates ? x9 : x1) ? 0 : 1;
              if (kStates) after_residual[i] = x9;
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_power, 32u) + ops::packedBytes(f.n, 8u);
        }
      });
      block.sync();
      block.once([&] {
        *f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;
        *f->error = f->bad == 0 ? f->stop : 0u;
      });
    }
  }
};

}  // namespace encoding

namespace summarising {

struct Frame {
  size_t n = 0;
  Params params;
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  uint8_t* message = nullptr;
  uint32_t* messageBytes = nullptr;
  uint32_t* error = nullptr;
  const uint8_t* payload = nullptr;
  size_t capacity = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
  size_t n_power = 0;
  double* v_power = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  size_t n_range = 0;
  size_t o_0 = 0;
  double* r_power = nullptr;
  float* r_blocks_1 = nullptr;
};

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE double operator()(double a, double b) const {
    [[maybe_unused]] const double x1 = (a + b);
    return x1;
  }
};

struct Combine1 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = ops::greater(a, b);
    return x1;
  }
};

template <bool kStates>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_power = ops::blockCount(f.n, ops::atLeastOne(1024));
        f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(1024));
        f.n_range = ops::asCount(static_cast<int32_t>(f.n_power));
        f.o_0 = 0;
      }
    });
    block.sync();
  }
};

template <bool kStates>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto r_power = f->r_power;
      [[maybe_unused]] const auto init_power = static_cast<double>(0x0.0p+0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      HIPRESS_SHARED double lanes_power[cuda::kUnitLanes];
      HIPRESS_SHARED float lanes_blocks_1[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          double own_power{};
          float own_blocks_1{};
          struct Given {
            float gradient;
            float before_residual;
          };
          cuda::eachOfLane<8>(
              first, last, t % ops::kLanes,
              [&](size_t place) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
              },
              [&](size_t place, const Given& given) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(place);
                [[maybe_unused]] const float x1 = given.gradient * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const double x4 = (static_cast<double>(x3) * static_cast<double>(x3));
                own_power = place < first + ops::kLanes ? static_cast<double>(x4)
                                                        : Combine0{f}(own_power, static_cast<double>(x4));
                [[maybe_unused]] const float x5 = ops::absolute(x3);
                own_blocks_1 = place < first + ops::kLanes
                                   ? static_cast<float>(x5)
                                   : Combine1{f}(own_blocks_1, static_cast<float>(x5));
              });
          lanes_power[cuda::placeOfLane(t)] = own_power;
          lanes_blocks_1[cuda::placeOfLane(t)] = own_blocks_1;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const double result_power =
              cuda::finishLanes(lanes_power + cuda::placeOfLane(t * ops::kLanes), last - first, Combine0{f});
          if (parts.isShort()) {
            v_power[unit] = Combine0{f}(init_power, result_power);
          } else {
            r_power[unit] = result_power;
          }
          const float result_blocks_1 = cuda::finishLanes(lanes_blocks_1 + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine1{f});
          if (parts.isShort()) {
            v_blocks_1[unit] = Combine1{f}(init_blocks_1, result_blocks_1);
          } else {
            r_blocks_1[unit] = result_blocks_1;
          }
        });
        block.sync();
      }
    }
  }
};

template <bool kStates>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(1024));
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto r_power = f->r_power;
      [[maybe_unused]] const auto init_power = static_cast<double>(0x0.0p+0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_power, init_power, v_power, Combine0{f});
      cuda::finishLongBlocks(block, parts, r_blocks_1, init_blocks_1, v_blocks_1, Combine1{f});
    }
  }
};

template <bool kStates>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_0 = f->message + f->o_0;
      [[maybe_unused]] const auto v_power = f->v_power;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto p_reach = f->params.p_reach;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto length = f->n_power;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          double v_power;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_power + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const double x1 = given.v_power;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const float x3 = static_cast<float>(
                  ((ops::subtractInt(static_cast<int32_t>(f->n), ops::multiplyInt(i, 1024)) < 1024)
                       ? static_cast<double>(x2)
                       : ops::lesser(
                             (static_cast<double>(p_reach) * ops::squareRoot((x1 / 0x1.0000000000000p+10))),
                             0x1.fffffd586b834p+127)));
              typed_0[i] = x3;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_power, 32u);
        }
      });
      block.sync();
    }
  }
};

template <bool kStates>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::checkFinite(block, f->gradient, f->n, f->scale, &f->bad);
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        *f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;
        *f->error = f->bad == 0 ? f->stop : 0u;
      });
    }
  }
};

}  // namespace summarising

namespace encoding_agreed {

struct Frame {
  size_t n = 0;
  Params params;
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const float* gradient = nullptr;
  float scale = 1;
  ops::RandomKey random;
  uint8_t* message = nullptr;
  uint32_t* messageBytes = nullptr;
  uint32_t* error = nullptr;
  const uint8_t* payload = nullptr;
  size_t capacity = 0;
  const float* before_residual = nullptr;
  float* after_residual = nullptr;
  size_t n_most = 0;
  const float* v_most = nullptr;
  size_t n_range_1 = 0;
  size_t n_range_2 = 0;
  size_t o_0 = 0;
  size_t o_1 = 0;
  float* x_exact = nullptr;
  float* v_exact = nullptr;
  double* v_inverse = nullptr;
  float* x_sent = nullptr;
  float* v_sent = nullptr;
  float* v_scale = nullptr;
};

template <bool kStates>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.bytes = f.capacity;
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_most = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), 1024), 2u);
        f.v_most = reinterpret_cast<const float*>(reader.numbers(f.n_most, 4, 2u));
        reader.finish(4u);
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_range_1 = ops::asCount(static_cast<int32_t>(f.n));
        f.n_range_2 = ops::asCount(static_cast<int32_t>(f.n));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_most, 32u);
      }
    });
    block.sync();
  }
};

template <bool kStates>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto v_most = f->v_most;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto length = f->n_most;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_most;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_most + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_most;
              [[maybe_unused]] const double x2 =
                  ((x1 > 0x0.0p+0f) ? (static_cast<double>(p_levels) / static_cast<double>(x1)) : 0x0.0p+0);
              v_inverse[i] = x2;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(1024)));
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto count_inverse = f->n_most;
      [[maybe_unused]] const auto x_exact = f->x_exact;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float gradient;
          float before_residual;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{}};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const int32_t x4 =
                  ops::multiplyInt((ops::multiplyInt(i, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(i, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x5 =
                  static_cast<float>(((ops::multiplyInt((x4 ^ ops::shiftRight(x4, 13)), (-1028477379)) < 0)
                                          ? (static_cast<double>((-x3)) *
                                             cuda::loadInside(v_inverse, count_inverse, blocks0.of(j)))
                                          : (static_cast<double>(x3) *
                                             cuda::loadInside(v_inverse, count_inverse, blocks0.of(j)))));
              x_exact[i] = x5;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::hadamardBlocks(block, f->x_exact, f->n, 1024u, 0x1.0000000000000p-5f, f->v_exact);
    }
  }
};

template <bool kStates>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_exact = f->v_exact;
      [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
      const ops::RandomKey random = f->random;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto x_sent = f->x_sent;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto length = f->n;
      HIPRESS_SHARED uint16_t w_0[cuda::kTile];
      alignas(4) HIPRESS_SHARED uint8_t t_x4[cuda::kTile];
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        if (p_stochastic) cuda::philoxTile(block, random, 0u, tile, count, w_0);
        block.sync();
        struct Given {
          float v_exact;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_exact + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_exact;
              [[maybe_unused]] const int32_t x2 = ops::toSigned(
                  ops::greater(
                      ops::lesser(
                          (p_stochastic ? ops::floorOf((x1 + ops::uniform(ops::halfWord(w_0[j]), 0x0.0p+0f,
                                                                          0x1.0000000000000p+0f)))
                                        : ops::roundOf(x1)),
                          static_cast<float>(p_levels)),
                      static_cast<float>(ops::negateInt(p_levels))),
                  8u);
              [[maybe_unused]] const float x3 = static_cast<float>(x2);
              x_sent[i] = x3;
              [[maybe_unused]] const int32_t x4 = (x2 & 255);
              t_x4[j] = static_cast<uint8_t>(x4);
            });
        block.sync();
        cuda::packTile(block, t_x4, count, 8u, field_1, tile);
        block.sync();
      }
    }
  }
};

template <bool kStates>
struct Kernel5 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::hadamardBlocks(block, f->x_sent, f->n, 1024u, 0x1.0000000000000p-5f, f->v_sent);
    }
  }
};

template <bool kStates>
struct Kernel6 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto v_most = f->v_most;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto length = f->n_most;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_most;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_most + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_most;
              [[maybe_unused]] const float x2 =
                  ops::lesser((x1 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
              v_scale[i] = x2;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel7 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto v_sent = f->v_sent;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(1024)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_most;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n;
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float gradient;
          float before_residual;
          float v_sent;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(gradient + i), kStates ? cuda::load(before_residual + i) : float{},
                           cuda::load(v_sent + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 = given.v_sent;
              [[maybe_unused]] const float x5 = x4;
              [[maybe_unused]] const int32_t x6 = i;
              [[maybe_unused]] const double x7 =
                  static_cast<double>(cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const int32_t x8 =
                  ops::multiplyInt((ops::multiplyInt(x6, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(x6, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x9 =
                  (x3 -
                   static_cast<float>(((ops::multiplyInt((x8 ^ ops::shiftRight(x8, 13)), (-1028477379)) < 0)
                                           ? (static_cast<double>((-x5)) * x7)
                                           : (static_cast<double>(x5) * x7))));
              bad += ops::isFinite(kStates ? x9 : x1) ? 0 : 1;
              if (kStates) after_residual[i] = x9;
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
  }
};

template <bool kStates>
struct Kernel8 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_0 = f->message + f->o_0;
      [[maybe_unused]] const auto v_most = f->v_most;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto length = f->n_most;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_most;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_most + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_most;
              typed_0[i] = x1;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_most, 32u) + ops::packedBytes(f.n, 8u);
        }
      });
      block.sync();
      block.once([&] {
        *f->messageBytes = f->bad == 0 && f->stop == 0 ? static_cast<uint32_t>(f->bytes) : 0u;
        *f->error = f->bad == 0 ? f->stop : 0u;
      });
    }
  }
};

}  // namespace encoding_agreed

namespace decoding {

struct Frame {
  size_t n = 0;
  Params params;
  uint32_t stop = 0;
  unsigned long long bad = 0;
  size_t bytes = 0;
  uint32_t ticket = 0;
  const uint8_t* payload = nullptr;
  const uint32_t* payloadBytes = nullptr;
  size_t capacity = 0;
  float* output = nullptr;
  uint32_t* error = nullptr;
  size_t n_most = 0;
  const float* v_most = nullptr;
  size_t n_level = 0;
  const uint8_t* v_level = nullptr;
  size_t n_range = 0;
  float* x_rotated = nullptr;
  float* v_rotated = nullptr;
  float* v_scale = nullptr;
};

template <bool kAccumulate>
struct Kernel0 {
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;
        if (f.bytes > f.capacity) f.stop = 1u;
        if (f.bytes == 0) f.stop = cuda::kLost;
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_most = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), 1024), 2u);
        f.v_most = reinterpret_cast<const float*>(reader.numbers(f.n_most, 4, 2u));
        f.n_level = reader.count(static_cast<int32_t>(f.n), 3u);
        f.v_level = reader.packed(f.n_level, 8u, 3u);
        reader.finish(4u);
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_range = ops::asCount(static_cast<int32_t>(f.n));
      }
    });
    block.sync();
  }
};

template <bool kAccumulate>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_level = f->v_level;
      [[maybe_unused]] const auto x_rotated = f->x_rotated;
      [[maybe_unused]] const auto length = f->n_level;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          int32_t code_level;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::unpackAt(v_level, i, 8u)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = ops::signExtended(given.code_level, 8u);
              [[maybe_unused]] const float x2 = static_cast<float>(x1);
              x_rotated[i] = x2;
            });
      }
    }
  }
};

template <bool kAccumulate>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::hadamardBlocks(block, f->x_rotated, f->n_level, 1024u, 0x1.0000000000000p-5f, f->v_rotated);
    }
  }
};

template <bool kAccumulate>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto v_most = f->v_most;
      [[maybe_unused]] const auto p_levels = f->params.p_levels;
      [[maybe_unused]] const auto length = f->n_most;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_most;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_most + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_most;
              [[maybe_unused]] const float x2 =
                  ops::lesser((x1 / static_cast<float>(p_levels)), 0x1.0000000000000p+116f);
              v_scale[i] = x2;
            });
      }
    }
  }
};

template <bool kAccumulate>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_rotated = f->v_rotated;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(1024)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_most;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n_level;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float v_rotated;
          float old;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_rotated + i), kAccumulate ? output[i] : 0.0f};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_rotated;
              [[maybe_unused]] const double x2 =
                  static_cast<double>(cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              [[maybe_unused]] const int32_t x3 =
                  ops::multiplyInt((ops::multiplyInt(i, (-1640531535)) ^
                                    ops::shiftRight(ops::multiplyInt(i, (-1640531535)), 15)),
                                   (-2048144777));
              [[maybe_unused]] const float x4 =
                  static_cast<float>(((ops::multiplyInt((x3 ^ ops::shiftRight(x3, 13)), (-1028477379)) < 0)
                                          ? (static_cast<double>((-x1)) * x2)
                                          : (static_cast<double>(x1) * x2)));
              output[i] = kAccumulate ? given.old + x4 : x4;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] { *f->error = f->stop == cuda::kLost ? 0u : f->stop; });
    }
  }
};

template <bool kAccumulate>
struct Kernel5 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == cuda::kLost) {
      cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    }
  }
};

}  // namespace decoding

HIPRESS_KERNEL(thc_nothing, cuda::Nothing)
HIPRESS_KERNEL(thc_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(thc_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(thc_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(thc_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(thc_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(thc_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(thc_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(thc_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(thc_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(thc_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(thc_encode_5, encoding::Kernel5<false>)
HIPRESS_KERNEL(thc_encode_states_5, encoding::Kernel5<true>)
HIPRESS_KERNEL(thc_encode_6, encoding::Kernel6<false>)
HIPRESS_KERNEL(thc_encode_states_6, encoding::Kernel6<true>)
HIPRESS_KERNEL(thc_encode_7, encoding::Kernel7<false>)
HIPRESS_KERNEL(thc_encode_states_7, encoding::Kernel7<true>)
HIPRESS_KERNEL(thc_encode_8, encoding::Kernel8<false>)
HIPRESS_KERNEL(thc_encode_states_8, encoding::Kernel8<true>)
HIPRESS_KERNEL(thc_encode_9, encoding::Kernel9<false>)
HIPRESS_KERNEL(thc_encode_states_9, encoding::Kernel9<true>)
HIPRESS_KERNEL(thc_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(thc_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(thc_decode_1, decoding::Kernel1<false>)
HIPRESS_KERNEL(thc_decode_accumulate_1, decoding::Kernel1<true>)
HIPRESS_KERNEL(thc_decode_2, decoding::Kernel2<false>)
HIPRESS_KERNEL(thc_decode_accumulate_2, decoding::Kernel2<true>)
HIPRESS_KERNEL(thc_decode_3, decoding::Kernel3<false>)
HIPRESS_KERNEL(thc_decode_accumulate_3, decoding::Kernel3<true>)
HIPRESS_KERNEL(thc_decode_4, decoding::Kernel4<false>)
HIPRESS_KERNEL(thc_decode_accumulate_4, decoding::Kernel4<true>)
HIPRESS_KERNEL(thc_decode_5, decoding::Kernel5<false>)
HIPRESS_KERNEL(thc_decode_accumulate_5, decoding::Kernel5<true>)
HIPRESS_KERNEL(thc_statistics_0, summarising::Kernel0<false>)
HIPRESS_KERNEL(thc_statistics_states_0, summarising::Kernel0<true>)
HIPRESS_KERNEL(thc_statistics_1, summarising::Kernel1<false>)
HIPRESS_KERNEL(thc_statistics_states_1, summarising::Kernel1<true>)
HIPRESS_KERNEL(thc_statistics_2, summarising::Kernel2<false>)
HIPRESS_KERNEL(thc_statistics_states_2, summarising::Kernel2<true>)
HIPRESS_KERNEL(thc_statistics_3, summarising::Kernel3<false>)
HIPRESS_KERNEL(thc_statistics_states_3, summarising::Kernel3<true>)
HIPRESS_KERNEL(thc_statistics_4, summarising::Kernel4<false>)
HIPRESS_KERNEL(thc_statistics_states_4, summarising::Kernel4<true>)
HIPRESS_KERNEL(thc_agreed_0, encoding_agreed::Kernel0<false>)
HIPRESS_KERNEL(thc_agreed_states_0, encoding_agreed::Kernel0<true>)
HIPRESS_KERNEL(thc_agreed_1, encoding_agreed::Kernel1<false>)
HIPRESS_KERNEL(thc_agreed_states_1, encoding_agreed::Kernel1<true>)
HIPRESS_KERNEL(thc_agreed_2, encoding_agreed::Kernel2<false>)
HIPRESS_KERNEL(thc_agreed_states_2, encoding_agreed::Kernel2<true>)
HIPRESS_KERNEL(thc_agreed_3, encoding_agreed::Kernel3<false>)
HIPRESS_KERNEL(thc_agreed_states_3, encoding_agreed::Kernel3<true>)
HIPRESS_KERNEL(thc_agreed_4, encoding_agreed::Kernel4<false>)
HIPRESS_KERNEL(thc_agreed_states_4, encoding_agreed::Kernel4<true>)
HIPRESS_KERNEL(thc_agreed_5, encoding_agreed::Kernel5<false>)
HIPRESS_KERNEL(thc_agreed_states_5, encoding_agreed::Kernel5<true>)
HIPRESS_KERNEL(thc_agreed_6, encoding_agreed::Kernel6<false>)
HIPRESS_KERNEL(thc_agreed_states_6, encoding_agreed::Kernel6<true>)
HIPRESS_KERNEL(thc_agreed_7, encoding_agreed::Kernel7<false>)
HIPRESS_KERNEL(thc_agreed_states_7, encoding_agreed::Kernel7<true>)
HIPRESS_KERNEL(thc_agreed_8, encoding_agreed::Kernel8<false>)
HIPRESS_KERNEL(thc_agreed_states_8, encoding_agreed::Kernel8<true>)

}  // namespace hipress::generated_cuda::codec_thc

namespace hipress::generated_cuda::codec_thc {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_levels = static_cast<int32_t>(values[0]);
  params.p_reach = static_cast<float>(values[1]);
  params.p_stochastic = static_cast<bool>(values[2]);
  params.p_error_feedback = static_cast<bool>(values[3]);
  params.p_residual_factor = static_cast<float>(values[4]);
  params.p_gradient_factor = static_cast<float>(values[5]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const size_t n_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n_power));
  [[maybe_unused]] const size_t n_range_1 = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t n_range_2 = ops::asCount(static_cast<int32_t>(n));
  return ops::packedBytes(most_power, 32u) + ops::packedBytes(n, 8u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const size_t n_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n_power));
  [[maybe_unused]] const size_t n_range_1 = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t n_range_2 = ops::asCount(static_cast<int32_t>(n));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_power = arena.take<double>(most_power);
  initial.v_blocks_1 = arena.take<float>(most_blocks_1);
  initial.x_exact = arena.take<float>(n);
  initial.v_exact = arena.take<float>(n);
  initial.r_power = arena.take<double>(cuda::mostPartials(n));
  initial.r_blocks_1 = arena.take<float>(cuda::mostPartials(n));
  initial.v_inverse = arena.take<double>(most_power);
  initial.x_sent = arena.take<float>(n);
  initial.v_sent = arena.take<float>(n);
  initial.v_scale = arena.take<float>(most_power);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {call->seed, call->step, call->tensor, call->firstElement};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  cuda::launch(stream, kStates ? "thc_encode_states_0" : "thc_encode_0", 1, Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "thc_encode_states_1" : "thc_encode_1", cuda::gridFor(n),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_2" : "thc_encode_2",
               cuda::gridFor(cuda::kTile * most_power), Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_3" : "thc_encode_3", cuda::gridFor(most_power),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_4" : "thc_encode_4", cuda::gridFor(n),
               Kernel4<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_5" : "thc_encode_5", cuda::gridFor(n),
               Kernel5<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_6" : "thc_encode_6", cuda::gridFor(n),
               Kernel6<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_7" : "thc_encode_7", cuda::gridFor(n),
               Kernel7<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_8" : "thc_encode_8", cuda::gridFor(most_power),
               Kernel8<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_encode_states_9" : "thc_encode_9", cuda::gridFor(n),
               Kernel9<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t statisticsWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                      const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace summarising;
  [[maybe_unused]] const size_t n_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_power = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(1024));
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n_power));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_power = arena.take<double>(most_power);
  initial.v_blocks_1 = arena.take<float>(most_blocks_1);
  initial.r_power = arena.take<double>(cuda::mostPartials(n));
  initial.r_blocks_1 = arena.take<float>(cuda::mostPartials(n));
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {call->seed, call->step, call->tensor, call->firstElement};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  cuda::launch(stream, kStates ? "thc_statistics_states_0" : "thc_statistics_0", 1,
               Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "thc_statistics_states_1" : "thc_statistics_1", cuda::gridFor(n),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_statistics_states_2" : "thc_statistics_2",
               cuda::gridFor(cuda::kTile * most_power), Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_statistics_states_3" : "thc_statistics_3", cuda::gridFor(most_power),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_statistics_states_4" : "thc_statistics_4", cuda::gridFor(n),
               Kernel4<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t agreedWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding_agreed;
  [[maybe_unused]] const size_t n_most = ops::asCount(ops::blocksOf(static_cast<int32_t>(n), 1024));
  [[maybe_unused]] const size_t most_most = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_range_1 = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t n_range_2 = ops::asCount(static_cast<int32_t>(n));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.x_exact = arena.take<float>(n);
  initial.v_exact = arena.take<float>(n);
  initial.v_inverse = arena.take<double>(most_most);
  initial.x_sent = arena.take<float>(n);
  initial.v_sent = arena.take<float>(n);
  initial.v_scale = arena.take<float>(most_most);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  initial.random = {call->seed, call->step, call->tensor, call->firstElement};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  cuda::launch(stream, kStates ? "thc_agreed_states_0" : "thc_agreed_0", 1, Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "thc_agreed_states_1" : "thc_agreed_1", cuda::gridFor(most_most),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_2" : "thc_agreed_2", cuda::gridFor(n),
               Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_3" : "thc_agreed_3", cuda::gridFor(n),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_4" : "thc_agreed_4", cuda::gridFor(n),
               Kernel4<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_5" : "thc_agreed_5", cuda::gridFor(n),
               Kernel5<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_6" : "thc_agreed_6", cuda::gridFor(most_most),
               Kernel6<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_7" : "thc_agreed_7", cuda::gridFor(n),
               Kernel7<kStates>{frame});
  cuda::launch(stream, kStates ? "thc_agreed_states_8" : "thc_agreed_8", cuda::gridFor(most_most),
               Kernel8<kStates>{frame});
  return arena.bytes();
}

inline size_t statisticsScratchBytes(const double* values, size_t count) {
  return statisticsWith<false>(nullptr, count, 0, parameters(values), nullptr);
}

inline size_t agreedScratchBytes(const double* values, size_t count, size_t agreedBytes) {
  return agreedWith<false>(nullptr, count, agreedBytes, parameters(values), nullptr);
}

inline void statistics(const cuda::CudaEncode& call, cuda::Stream stream) {
  if (call.before != nullptr) {
    statisticsWith<true>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  } else {
    statisticsWith<false>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  }
}

inline void encodeAgreed(const cuda::CudaEncode& call, cuda::Stream stream) {
  if (call.before != nullptr) {
    agreedWith<true>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  } else {
    agreedWith<false>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  }
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const size_t n_most = ops::asCount(ops::blocksOf(static_cast<int32_t>(n), 1024));
  [[maybe_unused]] const size_t most_most = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_level = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t most_level = capacity * 8 / 8u;
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.x_rotated = arena.take<float>(most_level);
  initial.v_rotated = arena.take<float>(most_level);
  initial.v_scale = arena.take<float>(most_most);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_0" : "thc_decode_0", 1,
               Kernel0<kAccumulate>{frame, initial});
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_1" : "thc_decode_1", cuda::gridFor(most_level),
               Kernel1<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_2" : "thc_decode_2", cuda::gridFor(most_level),
               Kernel2<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_3" : "thc_decode_3", cuda::gridFor(most_most),
               Kernel3<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_4" : "thc_decode_4", cuda::gridFor(most_level),
               Kernel4<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "thc_decode_accumulate_5" : "thc_decode_5", cuda::gridFor(n / 16),
               Kernel5<kAccumulate>{frame});
  return arena.bytes();
}

inline size_t maxEncodedBytes(const double* values, size_t count) {
  return count == 0 ? 0 : bound(count, parameters(values));
}

inline size_t encodeScratchBytes(const double* values, size_t count) {
  return encodeWith<false>(nullptr, count, 0, parameters(values), nullptr);
}

inline size_t decodeScratchBytes(const double* values, size_t count, size_t capacity) {
  return decodeWith<false>(nullptr, count, capacity, parameters(values), nullptr);
}

inline void encode(const cuda::CudaEncode& call, cuda::Stream stream) {
  if (call.count == 0) {
    cuda::launch(stream, "thc_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "thc_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
    return;
  }
  if (call.before != nullptr) {
    encodeWith<true>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  } else {
    encodeWith<false>(&call, call.count, call.agreedBytes, parameters(call.params), stream);
  }
}

inline void decode(const cuda::CudaDecode& call, cuda::Stream stream) {
  if (call.count == 0) {
    cuda::launch(stream, "thc_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
  } else if (call.accumulate != 0) {
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  } else {
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none", "the payload has more bytes than there is room for",
                                        "'most' is not in the payload as it must be",
                                        "'level' is not in the payload as it must be",
                                        "the payload is longer than its fields"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_thc

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_thc() {
  namespace codec = hipress::generated_cuda::codec_thc;
  static const hipress::cuda::CudaCodec table{"thc",
                                              codec::kernels,
                                              1,
                                              6,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              nullptr,
                                              nullptr,
                                              &codec::statisticsScratchBytes,
                                              &codec::statistics,
                                              &codec::agreedScratchBytes,
                                              &codec::encodeAgreed};
  return &table;
}
