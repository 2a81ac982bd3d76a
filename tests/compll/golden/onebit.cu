// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/onebit.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_onebit {

using namespace hipress;

struct Params {
  int32_t p_block{};
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
  int32_t* r_count = nullptr;
  float* r_blocks_1 = nullptr;
  float* r_blocks_2 = nullptr;
  float* v_low = nullptr;
  float* v_high = nullptr;
};

struct Combine0 {
  const Frame* f;
  HIPRESS_DEVICE int32_t operator()(int32_t a, int32_t b) const {
    [[maybe_unused]] const int32_t x1 = ops::addInt(a, b);
    return x1;
  }
};

struct Combine1 {
  const Frame* f;
  HIPRESS_DEVICE float operator()(float a, float b) const {
    [[maybe_unused]] const float x1 = (a + b);
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
        f.s_unit = static_cast<double>((0x1.0000000000000p+1f * static_cast<float>(f.params.p_block)));
        f.s_part = static_cast<float>((0x1.0000000000000p+0 / f.s_unit));
        f.n_count = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.n_blocks_1 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.n_block = ops::asCount(ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block));
        f.n_blocks_2 = ops::blockCount(f.n, ops::atLeastOne(f.params.p_block));
        f.o_0 = 0;
        f.o_1 = ops::packedBytes(f.n_blocks_2, 32u);
        f.o_2 = ops::packedBytes(f.n_blocks_2, 32u) + ops::packedBytes(f.n_blocks_1, 32u);
      }
    });
    block.sync();
    if (f->stop == 0) {
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto size = static_cast<size_t>(ops::atLeastOne(p_block));
      [[maybe_unused]] const auto v_count = f->v_count;
      [[maybe_unused]] const auto r_count = f->r_count;
      [[maybe_unused]] const auto init_count = static_cast<int32_t>(0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto v_blocks_2 = f->v_blocks_2;
      [[maybe_unused]] const auto r_blocks_2 = f->r_blocks_2;
      [[maybe_unused]] const auto init_blocks_2 = static_cast<float>(0x0.0p+0f);
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto s_part = f->s_part;
      HIPRESS_SHARED int32_t lanes_count[cuda::kUnitLanes];
      HIPRESS_SHARED float lanes_blocks_1[cuda::kUnitLanes];
      HIPRESS_SHARED float lanes_blocks_2[cuda::kUnitLanes];
      const cuda::BlockParts parts(f->n, size, true);
      const uint32_t together = cuda::unitsTogether(parts.units());
      for (size_t base = block.index * together; base < parts.units(); base += block.count * together) {
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t / ops::kLanes);
          if (t / ops::kLanes >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          int32_t own_count{};
          float own_blocks_1{};
          float own_blocks_2{};
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
                [[maybe_unused]] const int32_t x4 = static_cast<int32_t>((x3 >= 0x0.0p+0f));
                own_count = place < first + ops::kLanes ? static_cast<int32_t>(x4)
                                                        : Combine0{f}(own_count, static_cast<int32_t>(x4));
                [[maybe_unused]] const float x5 = ((x3 >= 0x0.0p+0f) ? (x3 * s_part) : 0x0.0p+0f);
                own_blocks_1 = place < first + ops::kLanes
                                   ? static_cast<float>(x5)
                                   : Combine1{f}(own_blocks_1, static_cast<float>(x5));
                [[maybe_unused]] const float x6 = ((x3 >= 0x0.0p+0f) ? 0x0.0p+0f : (x3 * s_part));
                own_blocks_2 = place < first + ops::kLanes
                                   ? static_cast<float>(x6)
                                   : Combine1{f}(own_blocks_2, static_cast<float>(x6));
              });
          lanes_count[cuda::placeOfLane(t)] = own_count;
          lanes_blocks_1[cuda::placeOfLane(t)] = own_blocks_1;
          lanes_blocks_2[cuda::placeOfLane(t)] = own_blocks_2;
        });
        block.sync();
        block.threads([&](unsigned t) {
          const auto unit = static_cast<uint32_t>(base + t);
          if (t >= together || unit >= parts.units()) return;
          const size_t first = parts.first(unit), last = parts.last(unit);
          if (first >= last) return;
          const int32_t result_count =
              cuda::finishLanes(lanes_count + cuda::placeOfLane(t * ops::kLanes), last - first, Combine0{f});
          if (parts.isShort()) {
            v_count[unit] = Combine0{f}(init_count, result_count);
          } else {
            r_count[unit] = result_count;
          }
          const float result_blocks_1 = cuda::finishLanes(lanes_blocks_1 + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine1{f});
          if (parts.isShort()) {
            v_blocks_1[unit] = Combine1{f}(init_blocks_1, result_blocks_1);
          } else {
            r_blocks_1[unit] = result_blocks_1;
          }
          const float result_blocks_2 = cuda::finishLanes(lanes_blocks_2 + cuda::placeOfLane(t * ops::kLanes),
                                                          last - first, Combine1{f});
          if (parts.isShort()) {
            v_blocks_2[unit] = Combine1{f}(init_blocks_2, result_blocks_2);
          } else {
            r_blocks_2[unit] = result_blocks_2;
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
      [[maybe_unused]] const auto v_count = f->v_count;
      [[maybe_unused]] const auto r_count = f->r_count;
      [[maybe_unused]] const auto init_count = static_cast<int32_t>(0);
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto r_blocks_1 = f->r_blocks_1;
      [[maybe_unused]] const auto init_blocks_1 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto v_blocks_2 = f->v_blocks_2;
      [[maybe_unused]] const auto r_blocks_2 = f->r_blocks_2;
      [[maybe_unused]] const auto init_blocks_2 = static_cast<float>(0x0.0p+0f);
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto s_part = f->s_part;
      const cuda::BlockParts parts(f->n, size);
      cuda::finishLongBlocks(block, parts, r_count, init_count, v_count, Combine0{f});
      cuda::finishLongBlocks(block, parts, r_blocks_1, init_blocks_1, v_blocks_1, Combine1{f});
      cuda::finishLongBlocks(block, parts, r_blocks_2, init_blocks_2, v_blocks_2, Combine1{f});
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
      [[maybe_unused]] const auto v_blocks_2 = f->v_blocks_2;
      [[maybe_unused]] const auto v_count = f->v_count;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      [[maybe_unused]] const auto s_unit = f->s_unit;
      [[maybe_unused]] const auto typed_0 = reinterpret_cast<float*>(f->message + f->o_0);
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto v_blocks_1 = f->v_blocks_1;
      [[maybe_unused]] const auto typed_1 = reinterpret_cast<float*>(f->message + f->o_1);
      [[maybe_unused]] const auto v_low = f->v_low;
      [[maybe_unused]] const auto v_high = f->v_high;
      [[maybe_unused]] const auto length = f->n_blocks_2;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float v_blocks_2;
          int32_t v_count;
          float v_blocks_1;
        };
        struct Made {
          float typed_0;
          float typed_1;
          float v_low;
          float v_high;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::loadRow(some, v_blocks_2 + i, given, &Given::v_blocks_2);
              cuda::loadRow(some, v_count + i, given, &Given::v_count);
              cuda::loadRow(some, v_blocks_1 + i, given, &Given::v_blocks_1);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const float x1 = given.v_blocks_2;
              [[maybe_unused]] const int32_t x2 = given.v_count;
              [[maybe_unused]] const float x3 = x1;
              [[maybe_unused]] const int32_t x4 = ops::subtractInt(
                  ops::lesser(p_block,
                              ops::subtractInt(static_cast<int32_t>(f->n), ops::multiplyInt(i, p_block))),
                  x2);
              [[maybe_unused]] const double x5 = s_unit;
              [[maybe_unused]] const float x6 = static_cast<float>(
                  ((x4 > 0) ? ((static_cast<double>(x3) * x5) / static_cast<double>(x4)) : 0x0.0p+0));
              made.typed_0 = x6;
              [[maybe_unused]] const float x7 = given.v_blocks_1;
              [[maybe_unused]] const float x8 = x7;
              [[maybe_unused]] const int32_t x9 = x2;
              [[maybe_unused]] const double x10 = s_unit;
              [[maybe_unused]] const float x11 = static_cast<float>(
                  ((x9 > 0) ? ((static_cast<double>(x8) * x10) / static_cast<double>(x9)) : 0x0.0p+0));
              made.typed_1 = x11;
              made.v_low = x6;
              made.v_high = x11;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::storeRow(some, typed_0 + i, stored, &Made::typed_0);
              cuda::storeRow(some, typed_1 + i, stored, &Made::typed_1);
              cuda::storeRow(some, v_low + i, stored, &Made::v_low);
              cuda::storeRow(some, v_high + i, stored, &Made::v_high);
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
      [[maybe_unused]] const auto field_2 = f->message + f->o_2;
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_low = f->v_low;
      [[maybe_unused]] const auto count_low = f->n_blocks_2;
      [[maybe_unused]] const auto v_high = f->v_high;
      [[maybe_unused]] const auto count_high = f->n_blocks_1;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n;
      alignas(16) HIPRESS_SHARED uint8_t t_x4[cuda::kTile];
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
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
              [[maybe_unused]] const int32_t x4 = static_cast<int32_t>((x3 >= 0x0.0p+0f));
              t_x4[j] = static_cast<uint8_t>(x4);
              [[maybe_unused]] const float x5 =
                  (x3 - ((x3 >= 0x0.0p+0f) ? cuda::loadInside(v_high, count_high, blocks0.of(j))
                                           : cuda::loadInside(v_low, count_low, blocks0.of(j))));
              bad += ops::isFinite(kStates ? x5 : x1) ? 0 : 1;
              made.after_residual = x5;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              if (kStates) cuda::storeRow(some, after_residual + i, stored, &Made::after_residual);
            });
        block.sync();
        cuda::packTile(block, t_x4, count, 1u, field_2, tile);
        block.sync();
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.bytes = ops::packedBytes(f.n_blocks_2, 32u) + ops::packedBytes(f.n_blocks_1, 32u) +
                    ops::packedBytes(f.n, 1u);
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
  int32_t s_n{};
  size_t n_low = 0;
  const float* v_low = nullptr;
  size_t n_high = 0;
  const float* v_high = nullptr;
  size_t n_sign = 0;
  const uint8_t* v_sign = nullptr;
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
        f.s_n = ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block);
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_low = reader.count(f.s_n, 2u);
        f.v_low = reinterpret_cast<const float*>(reader.numbers(f.n_low, 4, 2u));
        f.n_high = reader.count(f.s_n, 3u);
        f.v_high = reinterpret_cast<const float*>(reader.numbers(f.n_high, 4, 3u));
        f.n_sign = reader.count(static_cast<int32_t>(f.n), 4u);
        f.v_sign = reader.packed(f.n_sign, 1u, 4u);
        reader.finish(5u);
      }
    });
    block.sync();
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_sign = f->v_sign;
      [[maybe_unused]] const auto p_block = f->params.p_block;
      const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
      [[maybe_unused]] const auto v_low = f->v_low;
      [[maybe_unused]] const auto count_low = f->n_low;
      [[maybe_unused]] const auto v_high = f->v_high;
      [[maybe_unused]] const auto count_high = f->n_high;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        const cuda::TileBlocks blocks0(tile, size_blocks0);
        struct Given {
          int32_t code_sign;
          float old;
        };
        struct Made {
          float output;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::unpackRow(some, v_sign, i, 1u, given, &Given::code_sign);
              if (kAccumulate) cuda::readRow(some, output + i, given, &Given::old);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.code_sign;
              [[maybe_unused]] const float x2 =
                  ((x1 != 0) ? cuda::loadInside(v_high, count_high, blocks0.of(j))
                             : cuda::loadInside(v_low, count_low, blocks0.of(j)));
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
        f.s_n = ops::blocksOf(static_cast<int32_t>(f.n), f.params.p_block);
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.n_low = reader.count(f.s_n, 2u);
        f.v_low = reinterpret_cast<const float*>(reader.numbers(f.n_low, 4, 2u));
        f.n_high = reader.count(f.s_n, 3u);
        f.v_high = reinterpret_cast<const float*>(reader.numbers(f.n_high, 4, 3u));
        f.n_sign = reader.count(static_cast<int32_t>(f.n), 4u);
        f.v_sign = reader.packed(f.n_sign, 1u, 4u);
        reader.finish(5u);
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
    [[maybe_unused]] const auto v_sign = f->v_sign;
    [[maybe_unused]] const auto p_block = f->params.p_block;
    const cuda::BlockSize size_blocks0(static_cast<size_t>(ops::atLeastOne(p_block)));
    [[maybe_unused]] const auto v_low = f->v_low;
    [[maybe_unused]] const auto count_low = f->n_low;
    [[maybe_unused]] const auto v_high = f->v_high;
    [[maybe_unused]] const auto count_high = f->n_high;
    const cuda::TileBlocks blocks0(tile, size_blocks0);
    struct Given {
      int32_t code_sign;
    };
    using Made = cuda::None;
    block.rows<Given, Made>(
        count,
        [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          cuda::unpackRow(some, v_sign, i, 1u, given, &Given::code_sign);
        },
        [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = given.code_sign;
          [[maybe_unused]] const float x2 = ((x1 != 0) ? cuda::loadInside(v_high, count_high, blocks0.of(j))
                                                       : cuda::loadInside(v_low, count_low, blocks0.of(j)));
          sum.put(k, j, x2);
        },
        cuda::Nowhere{});
  }
};

}  // namespace decoding

HIPRESS_KERNEL(onebit_nothing, cuda::Nothing)
HIPRESS_KERNEL(onebit_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(onebit_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(onebit_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(onebit_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(onebit_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(onebit_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(onebit_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(onebit_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(onebit_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(onebit_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(onebit_sum, decoding::Sum)

}  // namespace hipress::generated_cuda::codec_onebit

namespace hipress::generated_cuda::codec_onebit {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_block = static_cast<int32_t>(values[0]);
  params.p_residual_factor = static_cast<float>(values[1]);
  params.p_gradient_factor = static_cast<float>(values[2]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
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

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
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
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  cuda::clear(&initial);
  initial.v_count = arena.take<int32_t>(most_count);
  initial.v_blocks_1 = arena.take<float>(most_blocks_1);
  initial.v_blocks_2 = arena.take<float>(most_blocks_2);
  initial.r_count = arena.take<int32_t>(cuda::mostPartials(n));
  initial.r_blocks_1 = arena.take<float>(cuda::mostPartials(n));
  initial.r_blocks_2 = arena.take<float>(cuda::mostPartials(n));
  initial.v_low = arena.take<float>(most_blocks_2);
  initial.v_high = arena.take<float>(most_blocks_1);
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.gradient = call->gradient;
  initial.scale = call->scale;

  initial.message = call->message;
  initial.messageBytes = call->messageBytes;
  initial.error = call->error;
  initial.payload = call->agreed;
  initial.capacity = capacity;
  initial.before_residual = kStates ? call->before[0] : nullptr;
  initial.after_residual = kStates ? call->after[0] : nullptr;
  cuda::launch(stream, kStates ? "onebit_encode_states_0" : "onebit_encode_0", cuda::gridFor(n),
               Kernel0<kStates>{initial, call->counters, frame});
  if (static_cast<size_t>(ops::atLeastOne(params.p_block)) > cuda::kTile)
    cuda::launch(stream, kStates ? "onebit_encode_states_1" : "onebit_encode_1",
                 cuda::gridFor(cuda::kTile * most_count), Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "onebit_encode_states_2" : "onebit_encode_2", cuda::gridFor(most_blocks_2),
               Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "onebit_encode_states_3" : "onebit_encode_3", cuda::gridFor(n),
               Kernel3<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const int32_t s_n = ops::blocksOf(static_cast<int32_t>(n), params.p_block);
  [[maybe_unused]] const size_t n_low = ops::asCount(s_n);
  [[maybe_unused]] const size_t most_low = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_high = ops::asCount(s_n);
  [[maybe_unused]] const size_t most_high = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_sign = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t most_sign = capacity * 8 / 1u;
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
  cuda::launch(stream, kAccumulate ? "onebit_decode_accumulate_0" : "onebit_decode_0", cuda::gridFor(n),
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
    cuda::launch(stream, "onebit_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "onebit_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
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
    cuda::launch(stream, "onebit_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
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
    cuda::launch(stream, "onebit_sum", cuda::gridFor(call.count), Sum{initial, part});
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none",
                                        "the payload has more bytes than there is room for",
                                        "'low' is not in the payload as it must be",
                                        "'high' is not in the payload as it must be",
                                        "'sign' is not in the payload as it must be",
                                        "the payload is longer than its fields"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_onebit

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec*
hipress_cuda_codec_onebit() {
  namespace codec = hipress::generated_cuda::codec_onebit;
  static const hipress::cuda::CudaCodec table{"onebit",
                                              codec::kernels,
                                              1,
                                              3,
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
