// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/element/convert.h"
#include "core/element/finite.h"

namespace hipress {
namespace {

/// Elements of one conversion: few enough to stay in the cache until they are added.
constexpr size_t kTile = 131072;

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
  *call.bytes = call.codec->encode(call.input, call.states, context, call.message);
}

void HostStream::decode(const DeviceDecode& call) {
  call.codec->decode(call.payload, call.output, call.mode, parallel_);
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

}  // namespace hipress
