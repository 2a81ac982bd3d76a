// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/int8.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_int8 {

using namespace hipress;

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
  size_t n_greatest = 0;
  float* v_greatest = nullptr;
  size_t o_0 = 0;
  size_t o_1 = 0;
  float* r_greatest = nullptr;
  float* v_scale = nullptr;
  float* v_unit_1 = nullptr;
  float* v_inverse = nullptr;
};

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = ops::greater(a, b);
    return x1;
  }
};

template <bool kStates>
struct Kernel0 {
  Frame initial;  // as far as the host knows it
  cuda::Counters* counters;
  Frame* later;  // of the kernels that follow
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    HIPRESS_SHARED cuda::OwnFrame<Frame> own;
    Frame* const frame = own.begin(block, initial);
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_greatest = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_greatest, 32u);
      }
    });
    block.sync();
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_greatest = f->v_greatest;
      [[maybe_unused]] const auto r_greatest = f->r_greatest;
      [[maybe_unused]] const auto init_greatest = static_cast<float>(0x0.0p+0f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      HIPRESS_SHARED float lanes_greatest[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          float own_greatest{};
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
                [[maybe_unused]] const float x4 = ops::absolute(x3);
                own_greatest = place < first + ops::kLanes
                                   ? static_cast<float>(x4)
                                   : Combine0{f}(own_greatest, static_cast<float>(x4));
              });
          lanes_greatest[cuda::placeOfLane(t)] = own_greatest;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const float result_greatest = cuda::finishLanes(lanes_greatest + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine0{f});
          if (parts.isShort()) {
            v_greatest[unit] = Combine0{f}(init_greatest, result_greatest);
          } else {
            r_greatest[unit] = result_greatest;
          }
        });
        block.sync();
      }
    }
    if (cuda::isLastWith(block, f, counters)) {
      cuda::copyFrame(block, *f, later);
    }
  }
};

template <bool kStates>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_greatest = f->v_greatest;
      [[maybe_unused]] const auto r_greatest = f->r_greatest;
      [[maybe_unused]] const auto init_greatest = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_greatest, init_greatest, v_greatest, Combine0{f});
    }
  }
};

template <bool kStates>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_0 = f->message + f->o_0;
      [[maybe_unused]] const auto v_greatest = f->v_greatest;
      [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto v_unit_1 = f->v_unit_1;
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto length = f->n_greatest;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_greatest;
        };
        struct Made {
          float typed_0;
          float v_scale;
          float v_unit_1;
          float v_inverse;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::loadRow(some, v_greatest + i, given, &Given::v_greatest);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_greatest;
              [[maybe_unused]] const float x2 =
                  ((x1 < 0x1.79ca100000000p-67f) ? 0x1.0000000000000p+64f : 0x1.0000000000000p+0f);
              [[maybe_unused]] const float x3 =
                  (p_stochastic ? 0x1.fbfffe0000000p+6f : 0x1.fc00000000000p+6f);
              [[maybe_unused]] const float x4 =
                  ops::lesser((x1 / 0x1.fc00000000000p+6f), 0x1.0204060000000p+121f);
              [[maybe_unused]] const float x5 = x2;
              [[maybe_unused]] const float x6 = ((x1 > 0x0.0p+0f) ? (x3 / (x1 * x2)) : 0x0.0p+0f);
              made.typed_0 = x4;
              made.v_scale = x4;
              made.v_unit_1 = x5;
              made.v_inverse = x6;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::storeRow(some, typed_0 + i, stored, &Made::typed_0);
              cuda::storeRow(some, v_scale + i, stored, &Made::v_scale);
              cuda::storeRow(some, v_unit_1 + i, stored, &Made::v_unit_1);
              cuda::storeRow(some, v_inverse + i, stored, &Made::v_inverse);
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
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_greatest;
      [[maybe_unused]] const auto v_unit_1 = f->v_unit_1;
      [[maybe_unused]] const auto count_unit_1 = f->n_greatest;
      [[maybe_unused]] const auto v_inverse = f->v_inverse;
      [[maybe_unused]] const auto count_inverse = f->n_greatest;
      [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
      const ops::RandomKey random = f->random;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto length = f->n;
      HIPRESS_SHARED uint16_t w_0[cuda::kTile];
      alignas(16) HIPRESS_SHARED uint8_t t_x9[cuda::kTile];
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        if (p_stochastic) cuda::philoxTile(block, random, 0u, tile, count, w_0);
        block.sync();
        struct Given {
          float gradient;
          float before_residual;
        };
        struct Made {
          float after_residual;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::loadRow(some, gradient + i, given, &Given::gradient);
              if (kStates) cuda::loadRow(some, before_residual + i, given, &Given::before_residual);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.gradient * scale;
              [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
              [[maybe_unused]] const float x3 = (x1 + x2);
              [[maybe_unused]] const float x4 =
                  ((x3 * cuda::loadInside(v_unit_1, count_unit_1, blocks0.of(j))) *
                   cuda::loadInside(v_inverse, count_inverse, blocks0.of(j)));
              [[maybe_unused]] const float x5 =
                  (p_stochastic ? (x4 + ops::uniform(ops::halfWord(w_0[j]), (-0x1.0000000000000p-1f),
                                                     0x1.0000000000000p-1f))
                                : x4);
              [[maybe_unused]] const float x6 = ops::roundOf(x5);
              [[maybe_unused]] const int32_t x7 = ops::nearestSigned(x5, 8u);
              [[maybe_unused]] const float x8 =
                  (x3 - (x6 * cuda::loadInside(v_scale, count_scale, blocks0.of(j))));
              bad += ops::isFinite(kStates ? x8 : x1) ? 0 : 1;
              made.after_residual = x8;
              [[maybe_unused]] const int32_t x9 = (x7 & 255);
              t_x9[j] = static_cast<uint8_t>(x9);
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              if (kStates) cuda::storeRow(some, after_residual + i, stored, &Made::after_residual);
            });
        block.sync();
        cuda::packTile(block, t_x9, count, 8u, field_1, tile);
        block.sync();
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_greatest, 32u) + ops::packedBytes(f.n, 8u);
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

template <bool kStates>
struct Kernel4 {
  Frame initial;  // as far as the host knows it
  cuda::Counters* counters;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    HIPRESS_SHARED cuda::OwnFrame<Frame> own;
    Frame* const frame = own.begin(block, initial);
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_greatest = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_greatest, 32u);
      }
    });
    block.sync();
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      HIPRESS_SHARED float lanes_greatest[cuda::kOnePassLanes];
      HIPRESS_SHARED float near_scale[cuda::kOnePassUnits];
      HIPRESS_SHARED float near_unit_1[cuda::kOnePassUnits];
      HIPRESS_SHARED float near_inverse[cuda::kOnePassUnits];
      HIPRESS_SHARED uint16_t w_0[cuda::kTile];
      alignas(16) HIPRESS_SHARED uint8_t t_x9[cuda::kTile];
      [[maybe_unused]] int32_t bad = 0;
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::onePassUnits(f->n, size);
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const float scale = f->scale;
          [[maybe_unused]] const auto gradient = f->gradient;
          [[maybe_unused]] const auto before_residual = f->before_residual;
          [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
          for (unsigned lane = t; lane < together * ops::kLanes; lane += cuda::kThreads) {
            const auto unit = static_cast<uint32_t>(base + lane / ops::kLanes);
            if (unit >= parts.units()) return;
            const size_t first = parts.first(unit), last = parts.last(unit);
            float own_greatest{};
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
                  [[maybe_unused]] const float x2 =
                      kStates ? p_residual_factor * given.before_residual : 0.0f;
                  [[maybe_unused]] const float x3 = (x1 + x2);
                  [[maybe_unused]] const float x4 = ops::absolute(x3);
                  own_greatest = place < first + ops::kLanes
                                     ? static_cast<float>(x4)
                                     : Combine0{f}(own_greatest, static_cast<float>(x4));
                });
            lanes_greatest[cuda::placeOfLane(lane)] = own_greatest;
          }
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          [[maybe_unused]] const auto i = static_cast<int32_t>(unit);
          [[maybe_unused]] const auto field_0 = f->message + f->o_0;
          [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
          [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
          const float result_greatest = cuda::finishLanes(lanes_greatest + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine0{f});
          [[maybe_unused]] const float one_greatest =
              Combine0{f}(static_cast<float>(0x0.0p+0f), result_greatest);
          struct Made {
            float typed_0;
          };
          Made made{};
          [[maybe_unused]] const float x1 = one_greatest;
          [[maybe_unused]] const float x2 =
              ((x1 < 0x1.79ca100000000p-67f) ? 0x1.0000000000000p+64f : 0x1.0000000000000p+0f);
          [[maybe_unused]] const float x3 = (p_stochastic ? 0x1.fbfffe0000000p+6f : 0x1.fc00000000000p+6f);
          [[maybe_unused]] const float x4 =
              ops::lesser((x1 / 0x1.fc00000000000p+6f), 0x1.0204060000000p+121f);
          [[maybe_unused]] const float x5 = x2;
          [[maybe_unused]] const float x6 = ((x1 > 0x0.0p+0f) ? (x3 / (x1 * x2)) : 0x0.0p+0f);
          made.typed_0 = x4;
          near_scale[t] = x4;
          near_unit_1[t] = x5;
          near_inverse[t] = x6;
          const cuda::Row<1> some{};
          const Made* const stored = &made;
          cuda::storeRow(some, typed_0 + i, stored, &Made::typed_0);
        });
        block.sync();
        const float scale = f->scale;
        [[maybe_unused]] const auto gradient = f->gradient;
        [[maybe_unused]] const auto before_residual = f->before_residual;
        [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
        [[maybe_unused]] const auto p_block = f->params.p_block;
        const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
        [[maybe_unused]] const auto p_stochastic = f->params.p_stochastic;
        const ops::RandomKey random = f->random;
        [[maybe_unused]] const auto after_residual = f->after_residual;
        [[maybe_unused]] const auto field_1 = f->message + f->o_1;
        const size_t behind = cuda::atMost((base + together) * size, f->n);
        for (size_t tile = base * size; tile < behind; tile += cuda::kTile) {
          [[maybe_unused]] const unsigned count = cuda::tileCount(tile, behind);
          const cuda::TileBlocks blocks0(tile, size_blocks0);
          if (p_stochastic) cuda::philoxTile(block, random, 0u, tile, count, w_0);
          block.sync();
          struct Given {
            float gradient;
            float before_residual;
          };
          struct Made {
            float after_residual;
          };
          block.rows<Given, Made>(
              count,
              [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
                cuda::loadRow(some, gradient + i, given, &Given::gradient);
                if (kStates) cuda::loadRow(some, before_residual + i, given, &Given::before_residual);
              },
              [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
                [[maybe_unused]] const float x1 = given.gradient * scale;
                [[maybe_unused]] const float x2 = kStates ? p_residual_factor * given.before_residual : 0.0f;
                [[maybe_unused]] const float x3 = (x1 + x2);
                [[maybe_unused]] const float x4 =
                    ((x3 * near_unit_1[blocks0.of(j) - static_cast<int32_t>(base)]) *
                     near_inverse[blocks0.of(j) - static_cast<int32_t>(base)]);
                [[maybe_unused]] const float x5 =
                    (p_stochastic ? (x4 + ops::uniform(ops::halfWord(w_0[j]), (-0x1.0000000000000p-1f),
                                                       0x1.0000000000000p-1f))
                                  : x4);
                [[maybe_unused]] const float x6 = ops::roundOf(x5);
                [[maybe_unused]] const int32_t x7 = ops::nearestSigned(x5, 8u);
                [[maybe_unused]] const float x8 =
                    (x3 - (x6 * near_scale[blocks0.of(j) - static_cast<int32_t>(base)]));
                bad += ops::isFinite(kStates ? x8 : x1) ? 0 : 1;
                made.after_residual = x8;
                [[maybe_unused]] const int32_t x9 = (x7 & 255);
                t_x9[j] = static_cast<uint8_t>(x9);
              },
              [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
                [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
                if (kStates) cuda::storeRow(some, after_residual + i, stored, &Made::after_residual);
              });
          block.sync();
          cuda::packTile(block, t_x9, count, 8u, field_1, tile);
          block.sync();
        }
        block.sync();
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (cuda::isLastWith(block, f, counters)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_greatest, 32u) + ops::packedBytes(f.n, 8u);
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
  size_t n_scale = 0;
  const float* v_scale = nullptr;
  size_t n_level = 0;
  const uint8_t* v_level = nullptr;
};

template <bool kAccumulate>
struct Kernel0 {
  Frame initial;  // as far as the host knows it
  cuda::Counters* counters;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    HIPRESS_SHARED cuda::OwnFrame<Frame> own;
    Frame* const frame = own.begin(block, initial);
    [[maybe_unused]] Frame* const f = frame;
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
        f.n_scale = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block), 2u);
        f.v_scale = reinterpret_cast<const float*>(reader.numbers(f.n_scale, 4, 2u));
        f.n_level = reader.count(static_cast<int32_t>(f.n), 3u);
        f.v_level = reader.packed(f.n_level, 8u, 3u);
        reader.finish(4u);
      }
    });
    block.sync();
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_level = f->v_level;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_scale;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          int32_t code_level;
          float old;
        };
        struct Made {
          float output;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::unpackRow(some, v_level, i, 8u, given, &Given::code_level);
              if (kAccumulate) cuda::readRow(some, output + i, given, &Given::old);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = ops::signExtended(given.code_level, 8u);
              [[maybe_unused]] const float x2 =
                  (static_cast<float>(x1) * cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
              made.output = kAccumulate ? given.old + x2 : x2;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::storeRow(some, output + i, stored, &Made::output);
            });
      }
    }
    if (f->stop == cuda::kLost) cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    if (block.index == 0) {
      block.once([&] { *f->error = f->stop == cuda::kLost ? 0u : f->stop; });
    }
  }
};

struct Sum {
  Frame initial;  // as far as the host knows it
  cuda::Contributions given;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    HIPRESS_SHARED cuda::OwnFrames<Frame, cuda::kMostSummed> own;
    Frame* const frames = own.frames();
    block.threads([&](unsigned t) {
      if (t >= given.number || given.all[t].values != nullptr) return;
      const cuda::Contribution& one = given.all[t];
      Frame& f = *own.begin(t, initial);
      f.payload = one.payload;
      f.payloadBytes = one.payloadBytes;
      if (f.stop == 0) {
        f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;
        if (f.bytes > f.capacity) f.stop = 1u;
        if (f.bytes == 0) f.stop = cuda::kLost;
      }
      if (f.stop == 0) {
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_scale = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block), 2u);
        f.v_scale = reinterpret_cast<const float*>(reader.numbers(f.n_scale, 4, 2u));
        f.n_level = reader.count(static_cast<int32_t>(f.n), 3u);
        f.v_level = reader.packed(f.n_level, 8u, 3u);
        reader.finish(4u);
      }
      if (block.index == 0) *one.error = f.stop == cuda::kLost ? 0u : f.stop;
    });
    block.sync();
    HIPRESS_SHARED float sums[cuda::kTile];
    for (size_t tile = block.index * cuda::kTile; tile < given.count; tile += block.count * cuda::kTile) {
      const cuda::TileSum sum{given, tile, cuda::tileCount(tile, given.count), sums};
      sum.begin(block);
      for (unsigned k = 0; k < given.number; ++k) add(block, sum, k, frames + k);
      sum.end(block);
    }
  }

 private:
  HIPRESS_DEVICE void add(const cuda::Block& block, const cuda::TileSum& sum, unsigned k,
                          const Frame* f) const {
    [[maybe_unused]] constexpr bool kAccumulate = false;
    if (given.all[k].values != nullptr) return sum.add(block, k, given.all[k].values);
    if (f->stop != 0)
      return sum.addEverywhere(block, k, f->stop == cuda::kLost ? static_cast<float>(NAN) : 0.0f);
    [[maybe_unused]] const size_t tile = sum.tile;
    [[maybe_unused]] const unsigned count = sum.count;
    [[maybe_unused]] const auto v_level = f->v_level;
    [[maybe_unused]] const auto p_block = f->params.p_block;
    const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
    [[maybe_unused]] const auto v_scale = f->v_scale;
    [[maybe_unused]] const auto count_scale = f->n_scale;
    const cuda::TileBlocks blocks0(tile, size_blocks0);
    struct Given {
      int32_t code_level;
    };
    using Made = cuda::None;
    block.rows<Given, Made>(
        count,
        [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          cuda::unpackRow(some, v_level, i, 8u, given, &Given::code_level);
        },
        [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = ops::signExtended(given.code_level, 8u);
          [[maybe_unused]] const float x2 =
              (static_cast<float>(x1) * cuda::loadInside(v_scale, count_scale, blocks0.of(j)));
          sum.put(k, j, x2);
        },
        cuda::Nowhere{});
  }
};

}  // namespace decoding

HIPRESS_KERNEL(int8_nothing, cuda::Nothing)
HIPRESS_KERNEL(int8_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(int8_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(int8_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(int8_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(int8_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(int8_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(int8_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(int8_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(int8_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(int8_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(int8_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(int8_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(int8_sum, decoding::Sum)

}  // namespace hipress::generated_cuda::codec_int8

namespace hipress::generated_cuda::codec_int8 {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_block = static_cast<int32_t>(values[0]);
  params.p_stochastic = static_cast<bool>(values[1]);
  params.p_error_feedback = static_cast<bool>(values[2]);
  params.p_residual_factor = static_cast<float>(values[3]);
  params.p_gradient_factor = static_cast<float>(values[4]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const size_t n_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
  return ops::packedBytes(most_greatest, 32u) + ops::packedBytes(n, 8u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const size_t n_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_greatest = ops::blockCount(n, ops::atLeastOne(params.p_block));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  cuda::clear(&initial);
  initial.v_greatest = arena.take<float>(most_greatest);
  initial.r_greatest = arena.take<float>(cuda::mostPartials(n));
  initial.v_scale = arena.take<float>(most_greatest);
  initial.v_unit_1 = arena.take<float>(most_greatest);
  initial.v_inverse = arena.take<float>(most_greatest);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;
  if (params.p_stochastic) initial.random = {call->seed, call->step, call->tensor, call->firstElement};
  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  if (cuda::takesOnePass(static_cast<size_t>(ops::atLeastOne(params.p_block)))) {
    cuda::launch(stream, kStates ? "int8_encode_states_4" : "int8_encode_4",
                 cuda::gridFor(n, cuda::onePassElements(n)), Kernel4<kStates>{initial, call->counters});
  } else {
    cuda::launch(stream, kStates ? "int8_encode_states_0" : "int8_encode_0", cuda::gridFor(n),
                 Kernel0<kStates>{initial, call->counters, frame});
    if (static_cast<size_t>(ops::atLeastOne(params.p_block)) > cuda::kTile)
      cuda::launch(stream, kStates ? "int8_encode_states_1" : "int8_encode_1",
                   cuda::gridFor(cuda::kTile * most_greatest), Kernel1<kStates>{frame});
    cuda::launch(stream, kStates ? "int8_encode_states_2" : "int8_encode_2", cuda::gridFor(most_greatest),
                 Kernel2<kStates>{frame});
    cuda::launch(stream, kStates ? "int8_encode_states_3" : "int8_encode_3", cuda::gridFor(n),
                 Kernel3<kStates>{frame});
  }
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const size_t n_scale =
      ops::asCount(ops::blocksOf(static_cast<int32_t>(n), params.p_block));
  [[maybe_unused]] const size_t most_scale = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_level = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t most_level = capacity * 8 / 8u;
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  Frame initial;
  cuda::clear(&initial);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
  cuda::launch(stream, kAccumulate ? "int8_decode_accumulate_0" : "int8_decode_0", cuda::gridFor(n),
               Kernel0<kAccumulate>{initial, call->counters});
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
    cuda::launch(stream, "int8_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "int8_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
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
    cuda::launch(stream, "int8_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
  } else if (call.accumulate != 0) {
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  } else {
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }
}

inline size_t sumScratchBytes(size_t number, size_t count) {
  cuda::Arena arena(nullptr);
  if (number > cuda::kMostSummed) arena.take<float>(count);
  return arena.bytes();
}

inline void sum(const cuda::CudaSum& call, cuda::Stream stream) {
  using namespace decoding;
  cuda::Arena arena(call.scratch);
  auto* const partial = arena.take<float>(call.count);  // of more contributions than one kernel takes
  Frame initial;
  cuda::clear(&initial);
  initial.n = call.count;
  initial.params = parameters(call.params);
  initial.capacity = call.capacity;
  for (size_t first = 0; first < call.number; first += cuda::kMostSummed) {
    const cuda::Contributions part = cuda::contributionsFrom(call, first, partial);
    cuda::launch(stream, "int8_sum", cuda::gridFor(call.count), Sum{initial, part});
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none", "the payload has more bytes than there is room for",
                                        "'scale' is not in the payload as it must be",
                                        "'level' is not in the payload as it must be",
                                        "the payload is longer than its fields"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_int8

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_int8() {
  namespace codec = hipress::generated_cuda::codec_int8;
  static const hipress::cuda::CudaCodec table{"int8",
                                              codec::kernels,
                                              1,
                                              5,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              &codec::sumScratchBytes,
                                              &codec::sum,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr};
  return &table;
}
