// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/topk.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_topk {

using namespace hipress;

struct Params {
  double p_ratio{};
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
  size_t n_range = 0;
  size_t o_1 = 0;
  uint32_t* k_taken = nullptr;
  size_t n_taken = 0;
  int32_t* v_taken = nullptr;
  cuda::Selection<uint32_t>* q_taken = nullptr;
  uint32_t* yl_k_taken = nullptr;
  uint32_t* ye_k_taken = nullptr;
  int32_t* v_index = nullptr;
  size_t o_2 = 0;
};

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_range([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline int32_t at_taken([[maybe_unused]] const Frame* f, int32_t i);
template <bool kStates>
HIPRESS_DEVICE inline float at_value([[maybe_unused]] const Frame* f, int32_t i);

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_range([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_range) return {};

  return i;
}

template <bool kStates>
HIPRESS_DEVICE inline int32_t at_taken([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n_taken) return {};
  [[maybe_unused]] const int32_t x1 = f->v_taken[i];
  return x1;
}

template <bool kStates>
HIPRESS_DEVICE inline float at_value([[maybe_unused]] const Frame* f, int32_t i) {
  if (i < 0 || static_cast<size_t>(i) >= f->n) return {};
  [[maybe_unused]] const float x1 = f->gradient[i] * f->scale;
  [[maybe_unused]] const float x2 = kStates ? f->params.p_residual_factor * f->before_residual[i] : 0.0f;
  [[maybe_unused]] const float x3 = (x1 + x2);
  return x3;
}

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
        f.n_range = ops::asCount(static_cast<int32_t>(f.n));
        f.o_1 = 4;
      }
    });
    block.sync();
    if (f->stop == 0) {
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto k_taken = f->k_taken;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n_range;
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          float gradient;
          float before_residual;
        };
        struct Made {
          uint32_t k_taken;
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
              [[maybe_unused]] const float x4 = (-ops::absolute(x3));
              made.k_taken = cuda::orderKey((x4));
              if (kStates) bad += ops::isFinite(x3) ? 0 : 1;
              made.after_residual = x3;
              bad += ops::isFinite(x1) ? 0 : 1;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::storeRow(some, k_taken + i, stored, &Made::k_taken);
              if (kStates) cuda::storeRow(some, after_residual + i, stored, &Made::after_residual);
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (cuda::isLastWith(block, f, counters)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.n_taken = cuda::atMost(ops::asCount(ops::toInt(ops::ceilOf(
                                       (static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)))),
                                   f.n_range);
        }
      });
      block.sync();
      if (f->stop == 0) {
        cuda::beginSelection(block, f->q_taken, static_cast<int64_t>(f->n_taken) - 1, f->n_range);
      }
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
      cuda::countKeys(block, f->k_taken, f->n_range, f->q_taken);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->q_taken);
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
      cuda::countKeys(block, f->k_taken, f->n_range, f->q_taken);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->q_taken);
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
      cuda::countKeys(block, f->k_taken, f->n_range, f->q_taken);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::pickBucket(block, f->q_taken);
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
      cuda::countTies(block, f->k_taken, f->n_range, f->q_taken, f->yl_k_taken, f->ye_k_taken);
    }
    if (block.last(&f->ticket)) {
      if (f->stop == 0) {
        cuda::scanTies(block, f->q_taken, f->yl_k_taken, f->ye_k_taken, f->n_range);
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
      cuda::smallestSet(
          block, f->k_taken, f->n_range, f->n_taken, f->q_taken, f->yl_k_taken, f->ye_k_taken,
          [&](size_t place, size_t i) { f->v_taken[place] = at_range<kStates>(f, static_cast<int32_t>(i)); });
    }
  }
};

template <bool kStates>
struct Kernel6 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      for (size_t tile = block.index * cuda::kTile; tile < f->n_taken; tile += block.count * cuda::kTile) {
        block.elements(cuda::tileCount(tile, f->n_taken), [&](unsigned j) {
          f->v_index[tile + j] = at_taken<kStates>(f, static_cast<int32_t>(tile + j));
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
      cuda::checkIndices(block, f->v_index, f->n_taken, f->n, true, 1u, &f->stop);
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          f.o_2 = 4 + ops::packedBytes(f.n_taken, 32u);
        }
      });
      block.sync();
    }
  }
};

template <bool kStates>
struct Kernel8 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_index = f->v_index;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto typed_1 = reinterpret_cast<int32_t*>(f->message + f->o_1);
      [[maybe_unused]] const auto field_2 = f->message + f->o_2;
      [[maybe_unused]] const auto typed_2 = reinterpret_cast<float*>(f->message + f->o_2);
      [[maybe_unused]] const auto length = f->n_taken;
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          int32_t v_index;
        };
        struct Made {
          int32_t typed_1;
          float typed_2;
        };
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::loadRow(some, v_index + i, given, &Given::v_index);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.v_index;
              if (kStates) {
                bad -= ops::isFinite(after_residual[x1]) ? 0 : 1;
                bad += ops::isFinite(0x0.0p+0f) ? 0 : 1;
                after_residual[x1] = 0x0.0p+0f;
              }
              made.typed_1 = x1;
              [[maybe_unused]] const float x2 = at_value<kStates>(f, x1);
              made.typed_2 = x2;
            },
            [&](unsigned j, [[maybe_unused]] auto some, const Made* stored) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::storeRow(some, typed_1 + i, stored, &Made::typed_1);
              cuda::storeRow(some, typed_2 + i, stored, &Made::typed_2);
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_taken)));
          f.bytes = 4 + ops::packedBytes(f.n_taken, 32u) + ops::packedBytes(f.n_taken, 32u);
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
  size_t n_index = 0;
  const int32_t* v_index = nullptr;
  size_t n_value = 0;
  const float* v_value = nullptr;
  size_t n_filled = 0;
};

template <bool kAccumulate>
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
        f.bytes = f.payloadBytes != nullptr ? *f.payloadBytes : f.capacity;
        if (f.bytes > f.capacity) f.stop = 2u;
        if (f.bytes == 0) f.stop = cuda::kLost;
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        cuda::PayloadReader reader(f.payload, f.bytes, &f.stop);
        f.s_count = reader.scalarInt(3u);
        f.n_index = reader.count(f.s_count, 4u);
        f.v_index = reinterpret_cast<const int32_t*>(reader.numbers(f.n_index, 4, 4u));
        f.n_value = reader.count(f.s_count, 5u);
        f.v_value = reinterpret_cast<const float*>(reader.numbers(f.n_value, 4, 5u));
        reader.finish(6u);
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        if (f.stop == 0 &&
            !((static_cast<double>(f.s_count) <=
               ops::ceilOf((static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)))))
          f.stop = 7;
      }
    });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.n_filled = ops::asCount(static_cast<int32_t>(f.n));
      }
    });
    block.sync();
    if (f->stop == 0) {
      cuda::checkIndices(block, f->v_index, f->n_index, f->n_filled, true, 1u, &f->stop);
    }
    if (cuda::isLastWith(block, f, counters)) {
      cuda::copyFrame(block, *f, later);
    }
  }
};

template <bool kAccumulate>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      if (!kAccumulate) cuda::fillAll(block, f->output, f->n, 0.0f);
    }
  }
};

template <bool kAccumulate>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      [[maybe_unused]] const auto v_index = f->v_index;
      [[maybe_unused]] const auto v_value = f->v_value;
      [[maybe_unused]] const auto output = f->output;
      [[maybe_unused]] const auto length = f->n_index;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        struct Given {
          int32_t v_index;
          float v_value;
        };
        using Made = cuda::None;
        block.rows<Given, Made>(
            count,
            [&](unsigned j, [[maybe_unused]] auto some, Given* given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              cuda::loadRow(some, v_index + i, given, &Given::v_index);
              cuda::loadRow(some, v_value + i, given, &Given::v_value);
            },
            [&](unsigned j, [[maybe_unused]] const Given& given, [[maybe_unused]] Made& made) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.v_index;
              [[maybe_unused]] const float x2 = given.v_value;
              output[x1] = kAccumulate ? output[x1] + x2 : x2;
            },
            cuda::Nowhere{});
      }
    }
    if (f->stop == cuda::kLost) cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    if (block.index == 0) {
      block.once([&] { *f->error = f->stop == cuda::kLost ? 0u : f->stop; });
    }
  }
};

}  // namespace decoding

HIPRESS_KERNEL(topk_nothing, cuda::Nothing)
HIPRESS_KERNEL(topk_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(topk_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(topk_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(topk_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(topk_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(topk_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(topk_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(topk_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(topk_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(topk_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(topk_encode_5, encoding::Kernel5<false>)
HIPRESS_KERNEL(topk_encode_states_5, encoding::Kernel5<true>)
HIPRESS_KERNEL(topk_encode_6, encoding::Kernel6<false>)
HIPRESS_KERNEL(topk_encode_states_6, encoding::Kernel6<true>)
HIPRESS_KERNEL(topk_encode_7, encoding::Kernel7<false>)
HIPRESS_KERNEL(topk_encode_states_7, encoding::Kernel7<true>)
HIPRESS_KERNEL(topk_encode_8, encoding::Kernel8<false>)
HIPRESS_KERNEL(topk_encode_states_8, encoding::Kernel8<true>)
HIPRESS_KERNEL(topk_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(topk_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(topk_decode_1, decoding::Kernel1<false>)
HIPRESS_KERNEL(topk_decode_accumulate_1, decoding::Kernel1<true>)
HIPRESS_KERNEL(topk_decode_2, decoding::Kernel2<false>)
HIPRESS_KERNEL(topk_decode_accumulate_2, decoding::Kernel2<true>)

}  // namespace hipress::generated_cuda::codec_topk

namespace hipress::generated_cuda::codec_topk {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_ratio = static_cast<double>(values[0]);
  params.p_residual_factor = static_cast<float>(values[1]);
  params.p_gradient_factor = static_cast<float>(values[2]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t n_taken = std::min(
      ops::asCount(ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
      n_range);
  [[maybe_unused]] const size_t most_taken = std::min(
      ops::asCount(ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
      n_range);
  return 4 + ops::packedBytes(most_taken, 32u) + ops::packedBytes(most_taken, 32u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const size_t n_range = ops::asCount(static_cast<int32_t>(n));
  [[maybe_unused]] const size_t n_taken = std::min(
      ops::asCount(ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
      n_range);
  [[maybe_unused]] const size_t most_taken = std::min(
      ops::asCount(ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)))),
      n_range);
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  cuda::clear(&initial);
  initial.k_taken = arena.take<uint32_t>(n_range);
  initial.v_taken = arena.take<int32_t>(most_taken);
  initial.q_taken = arena.take<cuda::Selection<uint32_t>>(1);
  initial.yl_k_taken = arena.take<uint32_t>(cuda::tileCounts(n_range));
  initial.ye_k_taken = arena.take<uint32_t>(cuda::tileCounts(n_range));
  initial.v_index = arena.take<int32_t>(most_taken);
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
  cuda::launch(stream, kStates ? "topk_encode_states_0" : "topk_encode_0", cuda::gridFor(n_range),
               Kernel0<kStates>{initial, call->counters, frame});
  cuda::launch(stream, kStates ? "topk_encode_states_1" : "topk_encode_1", cuda::gridFor(n_range),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_2" : "topk_encode_2", cuda::gridFor(n_range),
               Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_3" : "topk_encode_3", cuda::gridFor(n_range),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_4" : "topk_encode_4", cuda::gridFor(n_range),
               Kernel4<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_5" : "topk_encode_5", cuda::gridFor(n_range),
               Kernel5<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_6" : "topk_encode_6", cuda::gridFor(most_taken),
               Kernel6<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_7" : "topk_encode_7", cuda::gridFor(most_taken),
               Kernel7<kStates>{frame});
  cuda::launch(stream, kStates ? "topk_encode_states_8" : "topk_encode_8", cuda::gridFor(most_taken),
               Kernel8<kStates>{frame});
  return arena.bytes();
}

/// Without `call`, only the bytes of scratch memory.
template <bool kAccumulate>
size_t decodeWith(const cuda::CudaDecode* call, size_t n, size_t capacity, const Params& params,
                  [[maybe_unused]] cuda::Stream stream) {
  using namespace decoding;
  [[maybe_unused]] const size_t most_index = capacity * 8 / 32u;
  [[maybe_unused]] const size_t most_value = capacity * 8 / 32u;
  [[maybe_unused]] const size_t n_filled = ops::asCount(static_cast<int32_t>(n));
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  Frame* const frame = arena.take<Frame>(1);
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
  cuda::launch(stream, kAccumulate ? "topk_decode_accumulate_0" : "topk_decode_0", cuda::gridFor(most_index),
               Kernel0<kAccumulate>{initial, call->counters, frame});
  cuda::launch(stream, kAccumulate ? "topk_decode_accumulate_1" : "topk_decode_1", cuda::gridFor(n),
               Kernel1<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "topk_decode_accumulate_2" : "topk_decode_2", cuda::gridFor(most_index),
               Kernel2<kAccumulate>{frame});
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
    cuda::launch(stream, "topk_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "topk_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
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
    cuda::launch(stream, "topk_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
  } else if (call.accumulate != 0) {
    decodeWith<true>(&call, call.count, call.capacity, parameters(call.params), stream);
  } else {
    decodeWith<false>(&call, call.count, call.capacity, parameters(call.params), stream);
  }
}

inline const char* refusal(uint32_t error) {
  static const char* const reasons[] = {"none",
                                        "scatter: indices must be in the vector and increase",
                                        "the payload has more bytes than there is room for",
                                        "'count' is not in the payload as it must be",
                                        "'index' is not in the payload as it must be",
                                        "'value' is not in the payload as it must be",
                                        "the payload is longer than its fields",
                                        "the requirement in line 17 does not hold"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_topk

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec* hipress_cuda_codec_topk() {
  namespace codec = hipress::generated_cuda::codec_topk;
  static const hipress::cuda::CudaCodec table{"topk",
                                              codec::kernels,
                                              1,
                                              3,
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
