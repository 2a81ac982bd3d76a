// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/dynamiq.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_dynamiq {

using namespace hipress;

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
  size_t n_blocks = 0;
  float* v_blocks = nullptr;
  size_t n_blocks_1 = 0;
  float* v_blocks_1 = nullptr;
  int32_t s_spent{};
  size_t n_range = 0;
  size_t o_1 = 0;
  float* r_blocks = nullptr;
  float* r_blocks_1 = nullptr;
  uint32_t* k_sorted = nullptr;
  int32_t i_0 = 0;
  cuda::Selection<uint32_t>* qr_0 = nullptr;
  uint32_t* yl_k_sorted = nullptr;
  uint32_t* ye_k_sorted = nullptr;
  int32_t s_limit{};
  int32_t* v_width = nullptr;
  uint32_t* g_packed_1 = nullptr;
  size_t b_packed_1 = 1;
  size_t c_packed_1 = 0;
  size_t n_packed_1 = 0;
  size_t n_words = 0;
  size_t o_3 = 0;
  uint8_t* k_packed_1 = nullptr;
  int32_t* v_packed_1 = nullptr;
  int32_t* v_scale = nullptr;
};

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline int32_t at_wish([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline int32_t at_packed_1([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_scale([[maybe_unused]] const Frame* f, int32_t i) {
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
HIPRESS_DEVICE inline int32_t at_wish([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};
  [[maybe_unused]] const int32_t x1 =
      ops::subtractInt(ops::addInt(32767, ops::multiplyInt(128, ops::remainderInt(i, 6))),
                       (at_scale<kStates>(f, ops::divideInt(i, 6)) & 32767));
  return x1;
}

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_packed_1([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_packed_1) return {};
  [[maybe_unused]] const int32_t x1 = f->v_packed_1[i];
  return x1;
}

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = ops::lesser(a, b);
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
        f.n_blocks = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.s_spent = ops::toInt(ops::floorOf(
            (((f.params.p_bits - 0x1.0000000000000p+1) -
              static_cast<double>((0x1.0000000000000p+4f / static_cast<float>(f.params.p_block)))) *
             static_cast<double>(static_cast<int32_t>(f.n_blocks)))));
        f.n_range = ops::asCount(ops::multiplyInt(6, static_cast<int32_t>(f.n_blocks)));
        f.o_1 = 4;
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
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_blocks = f->v_blocks;
      [[maybe_unused]] const auto r_blocks = f->r_blocks;
      [[maybe_unused]] const auto init_blocks = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      HIPRESS_SHARED float lanes_blocks[cuda::kUnitLanes];
      HIPRESS_SHARED float lanes_blocks_1[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          float own_blocks{};
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
                own_blocks = place < first + ops::kLanes ? static_cast<float>(x3)
                                                         : Combine0{f}(own_blocks, static_cast<float>(x3));
                own_blocks_1 = place < first + ops::kLanes
                                   ? static_cast<float>(x3)
                                   : Combine1{f}(own_blocks_1, static_cast<float>(x3));
              });
          lanes_blocks[cuda::placeOfLane(t)] = own_blocks;
          lanes_blocks_1[cuda::placeOfLane(t)] = own_blocks_1;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const float result_blocks =
              cuda::finishLanes(lanes_blocks + cuda::placeOfLane(t * ops::kLanes), last - first, Combine0{f});
          if (parts.isShort()) {
            v_blocks[unit] = Combine0{f}(init_blocks, result_blocks);
          } else {
            r_blocks[unit] = result_blocks;
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
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_blocks = f->v_blocks;
      [[maybe_unused]] const auto r_blocks = f->r_blocks;
      [[maybe_unused]] const auto init_blocks = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_blocks, init_blocks, v_blocks, Combine0{f});
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
      [[maybe_unused]] const auto k_sorted = f->k_sorted;
      [[maybe_unused]] const auto length = f->n_range;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        block.elements(count, [&](unsigned j) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 =
              ops::subtractInt(ops::addInt(32767, ops::multiplyInt(128, ops::remainderInt(i, 6))),
                               (at_scale<kStates>(f, ops::divideInt(i, 6)) & 32767));
          [[maybe_unused]] const int32_t x2 = ops::absolute(x1);
          k_sorted[i] = cuda::orderKey((x2));
        });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.i_0 = f.s_spent;
        }
      });
      block.sync();
      if (f->stop == 0) {
        cuda::beginSelection(block, f->qr_0, f->i_0, f->n_range);
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
      cuda::countKeys(block, f->k_sorted, f->n_range, f->qr_0);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->qr_0);
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
      cuda::countKeys(block, f->k_sorted, f->n_range, f->qr_0);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->qr_0);
      }
    }
  }
};

template <bool kStates>
struct Kernel6 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::countKeys(block, f->k_sorted, f->n_range, f->qr_0);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->qr_0);
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
      cuda::countTies(block, f->k_sorted, f->n_range, f->qr_0, f->yl_k_sorted, f->ye_k_sorted);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::scanTies(block, f->qr_0, f->yl_k_sorted, f->ye_k_sorted, f->n_range);
      }
    }
  }
};

template <bool kStates>
struct Kernel8 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::findPosition(block, f->k_sorted, f->n_range, f->qr_0, f->yl_k_sorted, f->ye_k_sorted);
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.s_limit = ops::toUint(
              (static_cast<size_t>(f.i_0) < f.n_range ? at_wish<kStates>(&f, f.qr_0->position) : int32_t{}),
              16u);
        }
      });
      block.sync();
    }
  }
};

template <bool kStates>
struct Kernel9 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto v_blocks = f->v_blocks;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto s_limit = f->s_limit;
      [[maybe_unused]] const auto length = f->n_blocks;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_blocks;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_blocks + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_blocks;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const int32_t x3 = ops::toUint(
                  ops::addInt(ops::lesser(ops::shiftRight(
                                              ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16),
                                          32639),
                              (((-x1) > x2) ? 32768 : 0)),
                  16u);
              [[maybe_unused]] const int32_t x4 = x3;
              [[maybe_unused]] const int32_t x5 = s_limit;
              [[maybe_unused]] const int32_t x6 = ops::addInt(
                  2, ops::greater(
                         ops::lesser(
                             ops::shiftRight(ops::subtractInt(ops::addInt((x4 & 32767), x5), 32640), 7), 6),
                         0));
              v_width[i] = x6;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.b_packed_1 = static_cast<size_t>(ops::atLeastOne(f.params.p_block));
          f.c_packed_1 = ops::asCount(static_cast<int32_t>(f.n));
        }
      });
      block.sync();
    }
  }
};

template <bool kStates>
struct Kernel10 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::countBlockWords(block, f->v_width, f->n_blocks, f->c_packed_1, f->b_packed_1, f->g_packed_1);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::scanCounts(block, f->g_packed_1, f->n_blocks, &f->n_packed_1);
      }
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.n_words =
              cuda::atMost(ops::asCount(ops::multiplyInt(
                               ops::addInt(ops::multiplyInt(2, static_cast<int32_t>(f.n_blocks)), f.s_spent),
                               ops::divideInt(f.params.p_block, 32))),
                           f.n_packed_1);
          f.o_3 = 4 + ops::packedBytes(f.n_words, 32u) + 2;
        }
      });
      block.sync();
    }
  }
};

template <bool kStates>
struct Kernel11 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto v_blocks = f->v_blocks;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto s_limit = f->s_limit;
      [[maybe_unused]] const auto length = f->n_blocks;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_blocks;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_blocks + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_blocks;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const int32_t x3 = ops::toUint(
                  ops::addInt(ops::lesser(ops::shiftRight(
                                              ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16),
                                          32639),
                              (((-x1) > x2) ? 32768 : 0)),
                  16u);
              v_scale[i] = x3;
              [[maybe_unused]] const int32_t x4 = x3;
              [[maybe_unused]] const int32_t x5 = s_limit;
              [[maybe_unused]] const int32_t x6 = ops::addInt(
                  2, ops::greater(
                         ops::lesser(
                             ops::shiftRight(ops::subtractInt(ops::addInt((x4 & 32767), x5), 32640), 7), 6),
                         0));
              v_width[i] = x6;
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel12 {
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
      [[maybe_unused]] const auto count_scale = f->n_blocks;
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto count_width = f->n_blocks;
      [[maybe_unused]] const auto k_packed_1 = f->k_packed_1;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n;
      [[maybe_unused]] int32_t bad = 0;
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
              [[maybe_unused]] const int32_t x4 = cuda::loadInside(v_scale, count_scale, blocks0.of(j));
              [[maybe_unused]] const int32_t x5 = cuda::loadInside(v_width, count_width, blocks0.of(j));
              [[maybe_unused]] const float x6 =
                  ((cuda::loadInside(v_scale, count_scale, blocks0.of(j)) > 0)
                       ? ops::greater(
                             ops::roundOf(
                                 (x3 / (ops::floatOf(ops::shiftLeft(x4, 16)) /
                                        static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x5, 1)))))),
                             (0x1.0000000000000p+0f -
                              static_cast<float>(ops::shiftLeft(
                                  1, ops::subtractInt(cuda::loadInside(v_width, count_width, blocks0.of(j)),
                                                      1)))))
                       : 0x0.0p+0f);
              [[maybe_unused]] const int32_t x7 = cuda::loadInside(v_scale, count_scale, blocks0.of(j));
              [[maybe_unused]] const int32_t x8 = cuda::loadInside(v_width, count_width, blocks0.of(j));
              [[maybe_unused]] const int32_t x9 = ops::toUint(
                  (static_cast<float>(ops::shiftLeft(
                       1, ops::subtractInt(cuda::loadInside(v_width, count_width, blocks0.of(j)), 1))) -
                   x6),
                  8u);
              [[maybe_unused]] const float x10 =
                  (x3 - (x6 * (ops::floatOf(ops::shiftLeft(x7, 16)) /
                               static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x8, 1))))));
              k_packed_1[i] = static_cast<uint8_t>(x9);
              bad += ops::isFinite(kStates ? x10 : x1) ? 0 : 1;
              if (kStates) after_residual[i] = x10;
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
  }
};

template <bool kStates>
struct Kernel13 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::packBlocks(block, f->k_packed_1, f->n, f->b_packed_1, f->v_width, f->g_packed_1, f->v_packed_1);
    }
  }
};

template <bool kStates>
struct Kernel14 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_3 = f->message + f->o_3;
      [[maybe_unused]] const auto v_blocks = f->v_blocks;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto length = f->n_blocks;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_blocks;
          float v_blocks_1;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_blocks + i), cuda::load(v_blocks_1 + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_blocks;
              [[maybe_unused]] const float x2 = given.v_blocks_1;
              [[maybe_unused]] const int32_t x3 = ops::toUint(
                  ops::addInt(ops::lesser(ops::shiftRight(
                                              ops::addInt(ops::bitsOf(ops::greater(x2, (-x1))), 65535), 16),
                                          32639),
                              (((-x1) > x2) ? 32768 : 0)),
                  16u);
              cuda::putBytes<uint16_t>(field_3 + 2 * static_cast<size_t>(i), static_cast<uint16_t>(x3));
            });
      }
    }
  }
};

template <bool kStates>
struct Kernel15 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto typed_1 = reinterpret_cast<int32_t*>(f->message + f->o_1);
      [[maybe_unused]] const auto length = f->n_words;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        block.elements(count, [&](unsigned j) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = at_packed_1<kStates>(f, i);
          typed_1[i] = x1;
        });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_words)));
          ops::putScalar<uint16_t>(f.message + 4 + ops::packedBytes(f.n_words, 32u),
                                   static_cast<uint16_t>(f.s_limit));
          f.bytes = 4 + ops::packedBytes(f.n_words, 32u) + 2 + ops::packedBytes(f.n_blocks, 16u);
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
  int32_t s_count{};
  size_t n_words = 0;
  const int32_t* v_words = nullptr;
  int32_t s_limit{};
  size_t n_scale = 0;
  uint16_t* v_scale = nullptr;
  const uint8_t* u_scale = nullptr;
  size_t n_unpacked = 0;
  int32_t* v_width = nullptr;
  uint32_t* g_words_width = nullptr;
  size_t b_words_width = 1;
  size_t c_words_width = 0;
  size_t n_words_width = 0;
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
        f.s_count = reader.scalarInt(2u);
        f.n_words = reader.count(f.s_count, 3u);
        f.v_words = reinterpret_cast<const int32_t*>(reader.numbers(f.n_words, 4, 3u));
        f.s_limit = reader.scalarUint16(4u);
        f.n_scale = reader.count(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block), 5u);
        f.u_scale = reader.numbers(f.n_scale, 2, 5u);
        reader.finish(6u);
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
      cuda::copyBytes(block, f->u_scale, 2 * f->n_scale, f->v_scale);
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.n_unpacked = ops::asCount(static_cast<int32_t>(f.n));
        }
      });
      block.sync();
    }
  }
};

template <bool kAccumulate>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto s_limit = f->s_limit;
      [[maybe_unused]] const auto length = f->n_scale;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          uint16_t v_scale;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_scale + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.v_scale;
              [[maybe_unused]] const int32_t x2 = x1;
              [[maybe_unused]] const int32_t x3 = s_limit;
              [[maybe_unused]] const int32_t x4 = ops::addInt(
                  2, ops::greater(
                         ops::lesser(
                             ops::shiftRight(ops::subtractInt(ops::addInt((x2 & 32767), x3), 32640), 7), 6),
                         0));
              v_width[i] = x4;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.b_words_width = static_cast<size_t>(ops::atLeastOne(f.params.p_block));
          f.c_words_width = ops::asCount(static_cast<int32_t>(f.n));
        }
      });
      block.sync();
    }
  }
};

template <bool kAccumulate>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::countBlockWords(block, f->v_width, f->n_scale, f->c_words_width, f->b_words_width,
                            f->g_words_width);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::scanCounts(block, f->g_words_width, f->n_scale, &f->n_words_width);
      }
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          if (f.stop == 0 && f.n_words_width != f.n_words) f.stop = 7;
        }
      });
      block.sync();
    }
  }
};

template <bool kAccumulate>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto s_limit = f->s_limit;
      [[maybe_unused]] const auto length = f->n_scale;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          uint16_t v_scale;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_scale + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.v_scale;
              [[maybe_unused]] const int32_t x2 = x1;
              [[maybe_unused]] const int32_t x3 = s_limit;
              [[maybe_unused]] const int32_t x4 = ops::addInt(
                  2, ops::greater(
                         ops::lesser(
                             ops::shiftRight(ops::subtractInt(ops::addInt((x2 & 32767), x3), 32640), 7), 6),
                         0));
              v_width[i] = x4;
            });
      }
    }
  }
};

template <bool kAccumulate>
struct Kernel5 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_scale = f->v_scale;
      [[maybe_unused]] const auto count_scale = f->n_scale;
      [[maybe_unused]] const auto v_width = f->v_width;
      [[maybe_unused]] const auto count_width = f->n_scale;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          float old;
        };
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{kAccumulate ? output[i] : 0.0f};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 =
                  ops::codeOfBlocks(f->v_words, f->g_words_width, f->v_width,
                                    static_cast<size_t>(ops::atLeastOne(p_block)), static_cast<size_t>(i));
              [[maybe_unused]] const int32_t x2 = cuda::loadInside(v_scale, count_scale, blocks0.of(j));
              [[maybe_unused]] const int32_t x3 = cuda::loadInside(v_width, count_width, blocks0.of(j));
              [[maybe_unused]] const float x4 =
                  (static_cast<float>(ops::subtractInt(
                       ops::shiftLeft(
                           1, ops::subtractInt(cuda::loadInside(v_width, count_width, blocks0.of(j)), 1)),
                       x1)) *
                   (ops::floatOf(ops::shiftLeft(x2, 16)) /
                    static_cast<float>(ops::shiftLeft(1, ops::subtractInt(x3, 1)))));
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
struct Kernel6 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == cuda::kLost) {
      cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    }
  }
};

}  // namespace decoding

HIPRESS_KERNEL(dynamiq_nothing, cuda::Nothing)
HIPRESS_KERNEL(dynamiq_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(dynamiq_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(dynamiq_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(dynamiq_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(dynamiq_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(dynamiq_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(dynamiq_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(dynamiq_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(dynamiq_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(dynamiq_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(dynamiq_encode_5, encoding::Kernel5<false>)
HIPRESS_KERNEL(dynamiq_encode_states_5, encoding::Kernel5<true>)
HIPRESS_KERNEL(dynamiq_encode_6, encoding::Kernel6<false>)
HIPRESS_KERNEL(dynamiq_encode_states_6, encoding::Kernel6<true>)
HIPRESS_KERNEL(dynamiq_encode_7, encoding::Kernel7<false>)
HIPRESS_KERNEL(dynamiq_encode_states_7, encoding::Kernel7<true>)
HIPRESS_KERNEL(dynamiq_encode_8, encoding::Kernel8<false>)
HIPRESS_KERNEL(dynamiq_encode_states_8, encoding::Kernel8<true>)
HIPRESS_KERNEL(dynamiq_encode_9, encoding::Kernel9<false>)
HIPRESS_KERNEL(dynamiq_encode_states_9, encoding::Kernel9<true>)
HIPRESS_KERNEL(dynamiq_encode_10, encoding::Kernel10<false>)
HIPRESS_KERNEL(dynamiq_encode_states_10, encoding::Kernel10<true>)
HIPRESS_KERNEL(dynamiq_encode_11, encoding::Kernel11<false>)
HIPRESS_KERNEL(dynamiq_encode_states_11, encoding::Kernel11<true>)
HIPRESS_KERNEL(dynamiq_encode_12, encoding::Kernel12<false>)
HIPRESS_KERNEL(dynamiq_encode_states_12, encoding::Kernel12<true>)
HIPRESS_KERNEL(dynamiq_encode_13, encoding::Kernel13<false>)
HIPRESS_KERNEL(dynamiq_encode_states_13, encoding::Kernel13<true>)
HIPRESS_KERNEL(dynamiq_encode_14, encoding::Kernel14<false>)
HIPRESS_KERNEL(dynamiq_encode_states_14, encoding::Kernel14<true>)
HIPRESS_KERNEL(dynamiq_encode_15, encoding::Kernel15<false>)
HIPRESS_KERNEL(dynamiq_encode_states_15, encoding::Kernel15<true>)
HIPRESS_KERNEL(dynamiq_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(dynamiq_decode_1, decoding::Kernel1<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_1, decoding::Kernel1<true>)
HIPRESS_KERNEL(dynamiq_decode_2, decoding::Kernel2<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_2, decoding::Kernel2<true>)
HIPRESS_KERNEL(dynamiq_decode_3, decoding::Kernel3<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_3, decoding::Kernel3<true>)
HIPRESS_KERNEL(dynamiq_decode_4, decoding::Kernel4<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_4, decoding::Kernel4<true>)
HIPRESS_KERNEL(dynamiq_decode_5, decoding::Kernel5<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_5, decoding::Kernel5<true>)
HIPRESS_KERNEL(dynamiq_decode_6, decoding::Kernel6<false>)
HIPRESS_KERNEL(dynamiq_decode_accumulate_6, decoding::Kernel6<true>)

}  // namespace hipress::generated_cuda::codec_dynamiq

namespace hipress::generated_cuda::codec_dynamiq {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_bits = static_cast<double>(values[0]);
  params.p_block = static_cast<int32_t>(values[1]);
  params.p_error_feedback = static_cast<bool>(values[2]);
  params.p_residual_factor = static_cast<float>(values[3]);
  params.p_gradient_factor = static_cast<float>(values[4]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const size_t n_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const int32_t s_spent = ops::toInt(
      ops::floorOf((((params.p_bits - 0x1.0000000000000p+1) -
                     static_cast<double>((0x1.0000000000000p+4f / static_cast<float>(params.p_block)))) *
                    static_cast<double>(static_cast<int32_t>(n_blocks)))));
  [[maybe_unused]] const size_t n_range = ops::asCount(ops::multiplyInt(6, static_cast<int32_t>(n_blocks)));
  [[maybe_unused]] const size_t most_words = std::min(
      ops::asCount(ops::multiplyInt(ops::addInt(ops::multiplyInt(2, static_cast<int32_t>(n_blocks)), s_spent),
                                    ops::divideInt(params.p_block, 32))),
      n);
  return 4 + ops::packedBytes(most_words, 32u) + 2 + ops::packedBytes(most_blocks, 16u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const size_t n_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_blocks = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t n_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const size_t most_blocks_1 = ops::blockCount(n, ops::atLeastOne(params.p_block));
  [[maybe_unused]] const int32_t s_spent = ops::toInt(
      ops::floorOf((((params.p_bits - 0x1.0000000000000p+1) -
                     static_cast<double>((0x1.0000000000000p+4f / static_cast<float>(params.p_block)))) *
                    static_cast<double>(static_cast<int32_t>(n_blocks)))));
  [[maybe_unused]] const size_t n_range = ops::asCount(ops::multiplyInt(6, static_cast<int32_t>(n_blocks)));
  [[maybe_unused]] const size_t most_words = std::min(
      ops::asCount(ops::multiplyInt(ops::addInt(ops::multiplyInt(2, static_cast<int32_t>(n_blocks)), s_spent),
                                    ops::divideInt(params.p_block, 32))),
      n);
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_blocks = arena.take<float>(most_blocks);
  initial.v_blocks_1 = arena.take<float>(most_blocks_1);
  initial.r_blocks = arena.take<float>(cuda::mostPartials(n));
  initial.r_blocks_1 = arena.take<float>(cuda::mostPartials(n));
  initial.k_sorted = arena.take<uint32_t>(n_range);
  initial.qr_0 = arena.take<cuda::Selection<uint32_t>>(1);
  initial.yl_k_sorted = arena.take<uint32_t>(cuda::tileCounts(n_range));
  initial.ye_k_sorted = arena.take<uint32_t>(cuda::tileCounts(n_range));
  initial.v_width = arena.take<int32_t>(most_blocks);
  initial.g_packed_1 = arena.take<uint32_t>(most_blocks);
  initial.k_packed_1 = arena.take<uint8_t>(n);
  initial.v_packed_1 = arena.take<int32_t>(n);
  initial.v_scale = arena.take<int32_t>(most_blocks);
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
  cuda::launch(stream, kStates ? "dynamiq_encode_states_0" : "dynamiq_encode_0", 1,
               Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_1" : "dynamiq_encode_1", cuda::gridFor(n),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_2" : "dynamiq_encode_2",
               cuda::gridFor(cuda::kTile * most_blocks), Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_3" : "dynamiq_encode_3", cuda::gridFor(n_range),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_4" : "dynamiq_encode_4", cuda::gridFor(n_range),
               Kernel4<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_5" : "dynamiq_encode_5", cuda::gridFor(n_range),
               Kernel5<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_6" : "dynamiq_encode_6", cuda::gridFor(n_range),
               Kernel6<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_7" : "dynamiq_encode_7", cuda::gridFor(n_range),
               Kernel7<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_8" : "dynamiq_encode_8", cuda::gridFor(n_range),
               Kernel8<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_9" : "dynamiq_encode_9", cuda::gridFor(most_blocks),
               Kernel9<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_10" : "dynamiq_encode_10", cuda::gridFor(most_blocks),
               Kernel10<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_11" : "dynamiq_encode_11", cuda::gridFor(most_blocks),
               Kernel11<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_12" : "dynamiq_encode_12", cuda::gridFor(n),
               Kernel12<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_13" : "dynamiq_encode_13", cuda::gridFor(n),
               Kernel13<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_14" : "dynamiq_encode_14", cuda::gridFor(most_blocks),
               Kernel14<kStates>{frame});
  cuda::launch(stream, kStates ? "dynamiq_encode_states_15" : "dynamiq_encode_15", cuda::gridFor(most_words),
               Kernel15<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const size_t most_words = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_scale =
      ops::asCount(ops::blocksOf(static_cast<int32_t>(n), params.p_block));
  [[maybe_unused]] const size_t most_scale = capacity * 8 / 16u;
  [[maybe_unused]] const size_t n_unpacked = ops::asCount(static_cast<int32_t>(n));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_scale = arena.take<uint16_t>(most_scale);
  initial.v_width = arena.take<int32_t>(most_scale);
  initial.g_words_width = arena.take<uint32_t>(most_scale);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_0" : "dynamiq_decode_0", 1,
               Kernel0<kAccumulate>{frame, initial});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_1" : "dynamiq_decode_1",
               cuda::gridFor(2 * most_scale), Kernel1<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_2" : "dynamiq_decode_2",
               cuda::gridFor(most_scale), Kernel2<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_3" : "dynamiq_decode_3",
               cuda::gridFor(most_scale), Kernel3<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_4" : "dynamiq_decode_4",
               cuda::gridFor(most_scale), Kernel4<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_5" : "dynamiq_decode_5", cuda::gridFor(n),
               Kernel5<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "dynamiq_decode_accumulate_6" : "dynamiq_decode_6",
               cuda::gridFor(n / 16), Kernel6<kAccumulate>{frame});
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
    cuda::launch(stream, "dynamiq_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "dynamiq_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
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
    cuda::launch(stream, "dynamiq_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
  } else if (call.accumulate != 0) {
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  } else {
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none",
                                        "the payload has more bytes than there is room for",
                                        "'count' is not in the payload as it must be",
                                        "'words' is not in the payload as it must be",
                                        "'limit' is not in the payload as it must be",
                                        "'scale' is not in the payload as it must be",
                                        "the payload is longer than its fields",
                                        "unpack_blocks: there are not as many words as the widths need"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_dynamiq

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec*
hipress_cuda_codec_dynamiq() {
  namespace codec = hipress::generated_cuda::codec_dynamiq;
  static const hipress::cuda::CudaCodec table{"dynamiq",
                                              codec::kernels,
                                              1,
                                              5,
                                              &codec::maxEncodedBytes,
                                              &codec::encodeScratchBytes,
                                              &codec::decodeScratchBytes,
                                              &codec::encode,
                                              &codec::decode,
                                              &codec::refusal,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr,
                                              nullptr};
  return &table;
}
