// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "core/codec/summed_step.h"
#include "core/device/host_codec.h"
#include "core/device/slot_messages.h"
#include "core/element/convert.h"
#include "core/element/finite.h"
#include "core/element/zeros.h"

namespace hipress {
namespace {

/// Elements of one conversion: few enough to stay in the cache until they are added.
constexpr size_t kTile = 131072;

/// The codec's number of the error that the work throws; 0: no error.
template <typename Work>
uint32_t errorOf(const DeviceCodec* codec, const Work& work) {
  try {
    work();
    return 0;
  } catch (const Error& error) {
    return static_cast<const HostCodec*>(codec)->refuse(error.what());
  }
}

/// The message with the number of ranks that could not encode (codec/summed_step.h).
Bytes withFailures(const DeviceSummed& call) {
  return {call.message.data(), call.message.size() + 1};
}

/// Several threads of a step may write the same word.
void setWord(uint32_t* word, uint32_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_relaxed);
}

void scaleBy(float factor, std::span<float> values) {
  if (factor == 1.0f) return;
  for (float& value : values) value *= factor;
}

}  // namespace

void HostStream::copy(std::byte* to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void HostStream::encode(const DeviceEncode& call) {
  EncodeContext context = call.context;
  context.parallel = parallel_;
  const auto encoded = [&] { return call.codec->encode(call.input, call.states, context, call.message); };
  if (call.result == nullptr) {
    *call.bytes = encoded();
    return;
  }
  call.result[0] = 0;
  call.result[1] = errorOf(call.deviceCodec, [&] { call.result[0] = static_cast<uint32_t>(encoded()); });
}

void HostStream::decode(const DeviceDecode& call) {
  const auto decode = [&] {
    const size_t bytes = call.payloadBytes == nullptr ? call.payload.size() : *call.payloadBytes;
    if (bytes > call.payload.size()) throw corruptPayload("the payload is longer than its room");
    call.codec->decode(call.payload.first(bytes), call.output, call.mode, parallel_);
  };
  if (call.error == nullptr) return decode();
  *call.error = errorOf(call.deviceCodec, decode);
}

void HostStream::combine(Combination combination, DType dtype, std::span<const void* const> contributions,
                         size_t count, double factor, void* output) {
  combineInOrder(combination, dtype, contributions, count, factor, output);
}

void HostStream::add(DType dtype, std::span<const void* const> contributions, float factor, DecodeMode mode,
                     std::span<float> sum) {
  const bool assigns = mode == DecodeMode::kAssign;
  if (dtype == DType::kFloat32 && contributions.size() == 1) {
    const auto* values = static_cast<const float*>(contributions.front());
    if (assigns) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = factor * values[i];
    } else {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * values[i];
    }
    return;
  }
  if (assigns && contributions.size() == 1) {
    widen(contributions.front(), dtype, sum);
    return scaleBy(factor, sum);
  }
  const bool asTheyAre = dtype == DType::kFloat32 && factor == 1.0f;
  // The memory of these lists serves every call. `tiles`: the converted tile of each contribution.
  thread_local std::vector<const void*> values;
  thread_local std::vector<std::vector<float>> tiles;
  if (!asTheyAre) tiles.resize(std::max(tiles.size(), contributions.size()));
  const size_t step = asTheyAre ? std::max<size_t>(sum.size(), 1) : kTile;
  for (size_t begin = 0; begin < sum.size(); begin += step) {
    const std::span<float> part = sum.subspan(begin, std::min(step, sum.size() - begin));
    values.clear();
    if (!assigns) values.push_back(part.data());
    for (size_t k = 0; k < contributions.size(); ++k) {
      const void* source = static_cast<const std::byte*>(contributions[k]) + begin * elementSize(dtype);
      if (!asTheyAre) {
        tiles[k].resize(std::max(tiles[k].size(), part.size()));
        const std::span<float> tile(tiles[k].data(), part.size());
        widen(source, dtype, tile);
        scaleBy(factor, tile);
        source = tile.data();
      }
      values.push_back(source);
    }
    reduceInOrder(DType::kFloat32, values, part.size(), 1.0, part.data());
  }
}

void HostStream::narrow(std::span<const float> values, DType dtype, void* output) {
  hipress::narrow(values, dtype, output);
}

void HostStream::flagNotFinite(DType dtype, const void* values, size_t count, uint32_t* flag) {
  if (!allFinite(values, dtype, count)) *flag = 1;
}

void HostStream::copyUnlessZero(const uint32_t* word, std::span<const float> values, float* to) {
  if (*word != 0) std::ranges::copy(values, to);
}

void HostStream::rescale(std::span<const std::span<float>> values, const float* now, const float* before) {
  if (*now == *before) return;
  const float factor = *now / *before;
  for (const std::span<float> some : values) scaleBy(factor, some);
}

void HostStream::makeStatistics(const DeviceSummed& call) {
  EncodeContext context = call.context;
  context.parallel = parallel_;
  call.words[kStatisticsError] = errorOf(call.deviceCodec, [&] {
    hipress::makeStatistics(*call.codec, call.input, call.states, context,
                            std::as_writable_bytes(call.statistics));
  });
}

void HostStream::makeLevels(const DeviceSummed& call) {
  EncodeContext context = call.context;
  context.parallel = parallel_;
  call.words[kLevelsError] = errorOf(call.deviceCodec, [&] {
    hipress::makeLevels(*call.codec, std::as_bytes(call.statistics), call.input, call.states, context,
                        withFailures(call));
  });
  if (call.words[kLevelsError] == 0) {
    std::ranges::copy(withFailures(call).last(call.levels.size()), call.levels.begin());
    return;
  }
  std::ranges::fill(call.levels, std::byte{0});
  call.levels.back() = std::byte{1};
}

void HostStream::finishSum(const DeviceSummed& call) {
  bool finite = false;
  call.words[kSumError] = 0;
  if (*call.gradient != 0) {
    const Bytes message = withFailures(call);
    std::ranges::copy(call.levels, message.last(call.levels.size()).begin());
    call.words[kSumError] = errorOf(call.deviceCodec, [&] {
      finite = hipress::finishSum(*call.codec, std::as_bytes(call.statistics), message, call.factor,
                                  call.result, parallel_);
    });
    if (call.words[kSumError] != 0) std::ranges::fill(call.result, call.refused);
    if (!finite) setWord(call.verdict, 1);
  } else {
    std::ranges::fill(call.result, 0.0f);
  }
  call.words[kKeepsOld] = finite ? 0 : 1;
}

void HostStream::findNonzero(std::span<const SlotSpan> values) {
  for (const SlotSpan& one : values) {
    if (!areZeros({static_cast<const std::byte*>(one.values), one.count * one.elementBytes}))
      setWord(one.word, one.found);
  }
}

void HostStream::findNotFinite(DType dtype, std::span<const SlotSpan> values) {
  for (const SlotSpan& one : values) {
    if (!allFinite(one.values, dtype, one.count)) setWord(one.word, one.found);
  }
}

void HostStream::fillUnlessZero(std::span<const SlotFill> averages, uint32_t* verdict) {
  for (const SlotFill& one : averages) {
    if (*one.word == 0) continue;
    const uint32_t halves = *one.word == one.zerosAt ? 0 : one.otherwise;
    if (halves != 0) setWord(verdict, 1);
    std::memset(one.values, static_cast<uint8_t>(halves), one.bytes);
  }
}

void HostStream::seal(std::span<const SlotSeal> messages, uint32_t* verdict) {
  for (const SlotSeal& one : messages) {
    if (sealMessage(one)) setWord(verdict, 1);
  }
}

void HostStream::check(std::span<const SlotCheck> messages, uint32_t* verdict) {
  for (const SlotCheck& one : messages) {
    if (readMessage(one)) setWord(verdict, 1);
    if (!isExpected(one)) refuse(one);
  }
}

void HostStream::restore(std::span<const SlotRestore> states, const uint32_t* verdict) {
  for (const SlotRestore& one : states) {
    if (*verdict != 0 || *one.absent != 0) std::copy_n(one.before, one.count, one.state);
  }
}

}  // namespace hipress
