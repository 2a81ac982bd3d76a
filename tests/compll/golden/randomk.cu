// SPDX-License-Identifier: Apache-2.0
//
// Made by `hipress compll build` from compll/algorithms/randomk.cll.
#include "core/ops/cuda/generated.h"

namespace hipress::generated_cuda::codec_randomk {

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
  int32_t s_sent{};
  double s_stretch{};
  size_t n_range = 0;
  size_t o_1 = 0;
  size_t o_2 = 0;
  int32_t* v_index = nullptr;
};

template <bool kStates>
HIPRESS_DEVICE inline float at_value([[maybe_unused]] const Frame* f, int32_t i);

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
  Frame* frame;
  Frame initial;  // as far as the host knows it
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    block.once([&] { *frame = initial; });
    block.sync();
    block.once([&] {
      Frame& f = *frame;
      if (f.stop == 0) {
        f.s_sent =
            ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(f.n)) * f.params.p_ratio)));
        f.s_stretch = static_cast<double>((static_cast<float>(static_cast<int32_t>(f.n)) /
                                           (static_cast<float>(f.s_sent) * 0x1.0000000000000p+0f)));
        f.n_range = ops::asCount(f.s_sent);
        f.o_1 = 4;
        f.o_2 = 4 + ops::packedBytes(f.n_range, 32u);
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
      [[maybe_unused]] const auto v_index = f->v_index;
      const ops::RandomKey random = f->random;
      [[maybe_unused]] const auto s_stretch = f->s_stretch;
      [[maybe_unused]] const auto s_sent = f->s_sent;
      [[maybe_unused]] const auto field_1 = f->message + f->o_1;
      [[maybe_unused]] const auto typed_1 = reinterpret_cast<int32_t*>(f->message + f->o_1);
      [[maybe_unused]] const auto length = f->n_range;
      HIPRESS_SHARED uint32_t w_0[cuda::kTile];
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        cuda::philoxTile(block, random.ofAllRanks(), 0u, tile, count, w_0);
        block.sync();
        block.elements(count, [&](unsigned j) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = ops::uniformInt(
              w_0[j], ops::toInt(ops::floorOf((static_cast<double>(i) * s_stretch))),
              ops::toInt(((ops::addInt(i, 1) == s_sent)
                              ? static_cast<double>(static_cast<int32_t>(f->n))
                              : ops::floorOf((static_cast<double>(ops::addInt(i, 1)) * s_stretch)))));
          v_index[i] = x1;
          typed_1[i] = x1;
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
      const float scale = f->scale;
      [[maybe_unused]] const auto gradient = f->gradient;
      [[maybe_unused]] const auto before_residual = f->before_residual;
      [[maybe_unused]] const auto p_residual_factor = f->params.p_residual_factor;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto length = f->n;
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
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
              if (kStates) bad += ops::isFinite(x3) ? 0 : 1;
              if (kStates) after_residual[i] = x3;
              bad += ops::isFinite(x1) ? 0 : 1;
            });
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
  }
};

template <bool kStates>
struct Kernel3 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::checkIndices(block, f->v_index, f->n_range, f->n, true, 1u, &f->stop);
    }
  }
};

template <bool kStates>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      const ops::RandomKey random = f->random;
      [[maybe_unused]] const auto s_stretch = f->s_stretch;
      [[maybe_unused]] const auto s_sent = f->s_sent;
      [[maybe_unused]] const auto after_residual = f->after_residual;
      [[maybe_unused]] const auto field_2 = f->message + f->o_2;
      [[maybe_unused]] const auto typed_2 = reinterpret_cast<float*>(f->message + f->o_2);
      [[maybe_unused]] const auto length = f->n_range;
      HIPRESS_SHARED uint32_t w_0[cuda::kTile];
      [[maybe_unused]] int32_t bad = 0;
      for (size_t tile = block.index * cuda::kTile; tile < length; tile += block.count * cuda::kTile) {
        [[maybe_unused]] const unsigned count = cuda::tileCount(tile, length);
        cuda::philoxTile(block, random.ofAllRanks(), 0u, tile, count, w_0);
        block.sync();
        block.elements(count, [&](unsigned j) {
          [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
          [[maybe_unused]] const int32_t x1 = ops::uniformInt(
              w_0[j], ops::toInt(ops::floorOf((static_cast<double>(i) * s_stretch))),
              ops::toInt(((ops::addInt(i, 1) == s_sent)
                              ? static_cast<double>(static_cast<int32_t>(f->n))
                              : ops::floorOf((static_cast<double>(ops::addInt(i, 1)) * s_stretch)))));
          if (kStates) {
            bad -= ops::isFinite(after_residual[x1]) ? 0 : 1;
            bad += ops::isFinite(0x0.0p+0f) ? 0 : 1;
            after_residual[x1] = 0x0.0p+0f;
          }
          [[maybe_unused]] const float x2 = at_value<kStates>(f, x1);
          typed_2[i] = x2;
        });
        block.sync();
      }
      if (bad != 0) cuda::addTo(&f->bad, static_cast<unsigned long long>(static_cast<long long>(bad)));
    }
    if (block.last(&f->ticket)) {
      block.once([&] {
        Frame& f = *frame;
        if (f.stop == 0) {
          ops::putScalar<int32_t>(f.message + 0, static_cast<int32_t>(static_cast<int32_t>(f.n_range)));
          f.bytes = 4 + ops::packedBytes(f.n_range, 32u) + ops::packedBytes(f.n_range, 32u);
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
  }
};

template <bool kAccumulate>
struct Kernel1 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::checkIndices(block, f->v_index, f->n_index, f->n_filled, true, 1u, &f->stop);
    }
  }
};

template <bool kAccumulate>
struct Kernel2 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == 0) {
      cuda::fillAll(block, f->output, f->n, 0.0f);
    }
  }
};

template <bool kAccumulate>
struct Kernel3 {
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
        block.elements(
            count,
            [&](unsigned j) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              return Given{cuda::load(v_index + i), cuda::load(v_value + i)};
            },
            [&](unsigned j, [[maybe_unused]] const Given& given) {
              [[maybe_unused]] const auto i = static_cast<int32_t>(tile + j);
              [[maybe_unused]] const int32_t x1 = given.v_index;
              [[maybe_unused]] const float x2 = given.v_value;
              output[x1] = kAccumulate ? output[x1] + x2 : x2;
            });
      }
    }
    if (block.last(&f->ticket)) {
      block.once([&] { *f->error = f->stop == cuda::kLost ? 0u : f->stop; });
    }
  }
};

template <bool kAccumulate>
struct Kernel4 {
  Frame* frame;
  HIPRESS_DEVICE void operator()(const cuda::Block& block) const {
    [[maybe_unused]] Frame* const f = frame;
    if (f->stop == cuda::kLost) {
      cuda::fillAll(block, f->output, f->n, static_cast<float>(NAN));
    }
  }
};

}  // namespace decoding

HIPRESS_KERNEL(randomk_nothing, cuda::Nothing)
HIPRESS_KERNEL(randomk_encode_0, encoding::Kernel0<false>)
HIPRESS_KERNEL(randomk_encode_states_0, encoding::Kernel0<true>)
HIPRESS_KERNEL(randomk_encode_1, encoding::Kernel1<false>)
HIPRESS_KERNEL(randomk_encode_states_1, encoding::Kernel1<true>)
HIPRESS_KERNEL(randomk_encode_2, encoding::Kernel2<false>)
HIPRESS_KERNEL(randomk_encode_states_2, encoding::Kernel2<true>)
HIPRESS_KERNEL(randomk_encode_3, encoding::Kernel3<false>)
HIPRESS_KERNEL(randomk_encode_states_3, encoding::Kernel3<true>)
HIPRESS_KERNEL(randomk_encode_4, encoding::Kernel4<false>)
HIPRESS_KERNEL(randomk_encode_states_4, encoding::Kernel4<true>)
HIPRESS_KERNEL(randomk_decode_0, decoding::Kernel0<false>)
HIPRESS_KERNEL(randomk_decode_accumulate_0, decoding::Kernel0<true>)
HIPRESS_KERNEL(randomk_decode_1, decoding::Kernel1<false>)
HIPRESS_KERNEL(randomk_decode_accumulate_1, decoding::Kernel1<true>)
HIPRESS_KERNEL(randomk_decode_2, decoding::Kernel2<false>)
HIPRESS_KERNEL(randomk_decode_accumulate_2, decoding::Kernel2<true>)
HIPRESS_KERNEL(randomk_decode_3, decoding::Kernel3<false>)
HIPRESS_KERNEL(randomk_decode_accumulate_3, decoding::Kernel3<true>)
HIPRESS_KERNEL(randomk_decode_4, decoding::Kernel4<false>)
HIPRESS_KERNEL(randomk_decode_accumulate_4, decoding::Kernel4<true>)

}  // namespace hipress::generated_cuda::codec_randomk

namespace hipress::generated_cuda::codec_randomk {

extern const char* const kernels;

inline Params parameters([[maybe_unused]] const double* values) {
  Params params;
  params.p_ratio = static_cast<double>(values[0]);
  params.p_residual_factor = static_cast<float>(values[1]);
  params.p_gradient_factor = static_cast<float>(values[2]);
  return params;
}

inline size_t bound([[maybe_unused]] size_t n, [[maybe_unused]] const Params& params) {
  [[maybe_unused]] const int32_t s_sent =
      ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)));
  [[maybe_unused]] const double s_stretch = static_cast<double>(
      (static_cast<float>(static_cast<int32_t>(n)) / (static_cast<float>(s_sent) * 0x1.0000000000000p+0f)));
  [[maybe_unused]] const size_t n_range = ops::asCount(s_sent);
  return 4 + ops::packedBytes(n_range, 32u) + ops::packedBytes(n_range, 32u);
}

/// Without `call`, only the bytes of scratch memory.
template <bool kStates>
size_t encodeWith(const cuda::CudaEncode* call, size_t n, [[maybe_unused]] size_t capacity,
                  const Params& params, [[maybe_unused]] cuda::Stream stream) {
  using namespace encoding;
  [[maybe_unused]] const int32_t s_sent =
      ops::toInt(ops::ceilOf((static_cast<double>(static_cast<int32_t>(n)) * params.p_ratio)));
  [[maybe_unused]] const double s_stretch = static_cast<double>(
      (static_cast<float>(static_cast<int32_t>(n)) / (static_cast<float>(s_sent) * 0x1.0000000000000p+0f)));
  [[maybe_unused]] const size_t n_range = ops::asCount(s_sent);
  cuda::Arena arena(call == nullptr ? nullptr : call->scratch);
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  initial.v_index = arena.take<int32_t>(n_range);
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
  cuda::launch(stream, kStates ? "randomk_encode_states_0" : "randomk_encode_0", 1,
               Kernel0<kStates>{frame, initial});
  cuda::launch(stream, kStates ? "randomk_encode_states_1" : "randomk_encode_1", cuda::gridFor(n_range),
               Kernel1<kStates>{frame});
  cuda::launch(stream, kStates ? "randomk_encode_states_2" : "randomk_encode_2", cuda::gridFor(n),
               Kernel2<kStates>{frame});
  cuda::launch(stream, kStates ? "randomk_encode_states_3" : "randomk_encode_3", cuda::gridFor(n_range),
               Kernel3<kStates>{frame});
  cuda::launch(stream, kStates ? "randomk_encode_states_4" : "randomk_encode_4", cuda::gridFor(n_range),
               Kernel4<kStates>{frame});
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
  [[maybe_unused]] Frame* const frame = arena.take<Frame>(1);
  Frame initial;
  if (call == nullptr) return arena.bytes();
  initial.n = n;
  initial.params = params;
  initial.payload = call->payload;
  initial.payloadBytes = call->payloadBytes;
  initial.capacity = capacity;
  initial.output = call->output;
  initial.error = call->error;
  cuda::launch(stream, kAccumulate ? "randomk_decode_accumulate_0" : "randomk_decode_0", 1,
               Kernel0<kAccumulate>{frame, initial});
  cuda::launch(stream, kAccumulate ? "randomk_decode_accumulate_1" : "randomk_decode_1",
               cuda::gridFor(most_index), Kernel1<kAccumulate>{frame});
  if (!kAccumulate)
    cuda::launch(stream, kAccumulate ? "randomk_decode_accumulate_2" : "randomk_decode_2", cuda::gridFor(n),
                 Kernel2<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "randomk_decode_accumulate_3" : "randomk_decode_3",
               cuda::gridFor(most_index), Kernel3<kAccumulate>{frame});
  cuda::launch(stream, kAccumulate ? "randomk_decode_accumulate_4" : "randomk_decode_4",
               cuda::gridFor(n / 16), Kernel4<kAccumulate>{frame});
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
    cuda::launch(stream, "randomk_nothing", 1, cuda::Nothing{call.messageBytes, nullptr, 0});
    cuda::launch(stream, "randomk_nothing", 1, cuda::Nothing{call.error, nullptr, 0});
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
    cuda::launch(stream, "randomk_nothing", 1, cuda::Nothing{call.error, call.payloadBytes, call.capacity});
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
                                        "the requirement in line 21 does not hold"};
  constexpr size_t known = sizeof(reasons) / sizeof(reasons[0]);
  return error < known ? reasons[error] : "unknown";
}

}  // namespace hipress::generated_cuda::codec_randomk

extern "C" __attribute__((visibility("default"))) const hipress::cuda::CudaCodec*
hipress_cuda_codec_randomk() {
  namespace codec = hipress::generated_cuda::codec_randomk;
  static const hipress::cuda::CudaCodec table{"randomk",
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
