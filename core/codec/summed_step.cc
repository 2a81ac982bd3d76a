// SPDX-License-Identifier: Apache-2.0
#include "core/codec/summed_step.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/codec/summed_encoding.h"
#include "core/element/finite.h"
#include "core/element/reduce.h"

namespace hipress {
namespace {

/// Whatever other ranks have, the combination with this is not finite.
float poison(StatisticsReduction reduction) {
  if (reduction == StatisticsReduction::kMin) return -std::numeric_limits<float>::infinity();
  return reduction == StatisticsReduction::kMax ? std::numeric_limits<float>::infinity()
                                                : std::numeric_limits<float>::quiet_NaN();
}

bool areFinite(ConstBytes statistics) {
  return allFinite(statistics.data(), DType::kFloat32, statistics.size() / sizeof(float));
}

/// The sum of levels that a program makes too large would be another number.
void checkLevels(const Codec& codec, std::span<const std::byte> levels) {
  const int64_t most = codec.summed()->mostLevel();
  // Levels from -most to most are 0 to 2 most here, and all others are more: vector code for any processor.
  const auto shift = static_cast<uint8_t>(most);
  uint8_t greatest = 0;
  for (const std::byte level : levels)
    greatest = std::max(greatest, static_cast<uint8_t>(static_cast<uint8_t>(level) + shift));
  if (greatest <= 2 * most) return;
  const auto wrong = static_cast<int8_t>(static_cast<uint8_t>(greatest - shift));
  throw invalidArgument("codec " + codec.signature() + " made a level of " + std::to_string(wrong) +
                        ", and its add() says that none is greater than " + std::to_string(most) +
                        "; limit the levels that its encode makes");
}

/// Returns whether the products are finite.
bool multiply(std::span<float> values, double factor, Parallel* parallel) {
  std::atomic<bool> finite{true};
  constexpr size_t kPiece = size_t{1} << 16;
  const auto piece = [&](size_t number) {
    const std::span<float> some =
        values.subspan(number * kPiece, std::min(kPiece, values.size() - number * kPiece));
    const void* contributions[] = {some.data()};
    if (factor != 1.0) reduceInOrder(DType::kFloat32, contributions, some.size(), factor, some.data());
    // The piece is still in the cache.
    if (!allFinite(some.data(), DType::kFloat32, some.size())) finite.store(false, std::memory_order_relaxed);
  };
  const size_t pieces = (values.size() + kPiece - 1) / kPiece;
  if (parallel != nullptr) {
    parallel->run(pieces, piece);
  } else {
    for (size_t number = 0; number < pieces; ++number) piece(number);
  }
  return finite.load(std::memory_order_relaxed);
}

}  // namespace

void makeStatistics(const Codec& codec, std::span<const float> input, const EncodeStates& states,
                    const EncodeContext& context, Bytes statistics) {
  const SummedEncoding& summed = *codec.summed();
  if (summed.statistics(input, states, context, statistics) == statistics.size()) return;
  const float value = poison(summed.reduction());
  for (size_t at = 0; at < statistics.size(); at += sizeof value)
    std::memcpy(statistics.data() + at, &value, sizeof value);
}

void makeLevels(const Codec& codec, ConstBytes agreed, std::span<const float> input,
                const EncodeStates& states, const EncodeContext& context, Bytes message) {
  const Bytes encoded = message.first(message.size() - 1);
  const Bytes levels = encoded.subspan(agreed.size());
  const bool isEncoded = areFinite(agreed) && codec.summed()->encodeAgreed(input, agreed, states, context,
                                                                           encoded) == encoded.size();
  message.back() = isEncoded ? std::byte{0} : std::byte{1};
  if (isEncoded) return checkLevels(codec, levels);
  std::ranges::fill(levels, std::byte{0});
}

bool finishSum(const Codec& codec, ConstBytes agreed, Bytes message, double factor, std::span<float> result,
               Parallel* parallel) {
  if (!areFinite(agreed) || message.back() != std::byte{0}) {
    std::ranges::fill(result, std::numeric_limits<float>::quiet_NaN());
    return false;
  }
  std::ranges::copy(agreed, message.begin());
  codec.decode(message.first(message.size() - 1), result, DecodeMode::kAssign, parallel);
  return multiply(result, factor, parallel);
}

}  // namespace hipress
