// SPDX-License-Identifier: Apache-2.0
#include "core/codec/onebit.h"

#include <algorithm>
#include <cmath>

#include "core/codec/arguments.h"
#include "core/codec/onebit_kernels.h"

namespace hipress {
namespace {

constexpr CodecId kOnebitId = 16;

// Payload layout; docs/wire-format.md has the same table.
constexpr size_t kNegativeAt = 0;
constexpr size_t kNonNegativeAt = 4;
constexpr size_t kBitsAt = 8;

struct Means {
  float negative;
  float nonNegative;
};

Means meansOf(const onebit::SignSums& sums, size_t count) {
  const auto mean = [](double sum, size_t n) {
    return n == 0 ? 0.0f : static_cast<float>(sum / static_cast<double>(n));
  };
  return {mean(sums.negative, count - sums.nonNegativeCount), mean(sums.nonNegative, sums.nonNegativeCount)};
}

class Onebit final : public Codec {
 public:
  explicit Onebit(bool errorFeedback) : errorFeedback_(errorFeedback) {}

  std::string_view name() const override { return "onebit"; }
  std::string signature() const override {
    return std::string("onebit(error_feedback=") + (errorFeedback_ ? "true" : "false") + ")";
  }
  CodecId id() const override { return kOnebitId; }
  std::span<const std::string> states() const override {
    static const std::string names[] = {"residual"};
    return errorFeedback_ ? std::span<const std::string>(names) : std::span<const std::string>();
  }
  size_t maxEncodedBytes(size_t count) const override {
    return count == 0 ? 0 : kBitsAt + count / 8 + (count % 8 != 0 ? 1 : 0);
  }

  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override {
    checkEncodeArguments(*this, input, states, output);
    if (input.empty()) return 0;
    const float* held = states.before.empty() ? nullptr : states.before[0];
    auto* bits = reinterpret_cast<uint8_t*>(output.data() + kBitsAt);
    const onebit::SignSums sums =
        multiversion<onebit::Signs>(input.data(), held, context.scale, input.size(), bits);
    // A double sum of floats is finite exactly if every one of them is.
    if (!std::isfinite(sums.negative) || !std::isfinite(sums.nonNegative)) return 0;
    const Means means = meansOf(sums, input.size());
    std::memcpy(output.data() + kNegativeAt, &means.negative, sizeof(float));
    std::memcpy(output.data() + kNonNegativeAt, &means.nonNegative, sizeof(float));
    if (held != nullptr) {
      std::copy_n(held, input.size(), states.after[0]);
      multiversion<onebit::UpdateResidual>(input.data(), states.after[0], context.scale, input.size(),
                                           means.negative, means.nonNegative);
    }
    return maxEncodedBytes(input.size());
  }

  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode, Parallel*) const override {
    checkPayloadSize(*this, payload, output.size(), maxEncodedBytes(output.size()));
    const size_t used = output.size() % 8;
    if (used != 0 && (static_cast<unsigned>(payload.back()) >> used) != 0) {
      throw corruptPayload("codec onebit: the last byte has bits set beyond element " +
                           std::to_string(output.size() - 1));
    }
    Means means{};
    std::memcpy(&means.negative, payload.data() + kNegativeAt, sizeof(float));
    std::memcpy(&means.nonNegative, payload.data() + kNonNegativeAt, sizeof(float));
    const auto* bits = reinterpret_cast<const uint8_t*>(payload.data() + kBitsAt);
    if (mode == DecodeMode::kAssign) {
      multiversion<onebit::Expand<false>::Kernel>(bits, means.negative, means.nonNegative, output.data(),
                                                  output.size());
    } else {
      multiversion<onebit::Expand<true>::Kernel>(bits, means.negative, means.nonNegative, output.data(),
                                                 output.size());
    }
  }

 private:
  bool errorFeedback_;
};

}  // namespace

CodecDescription describeOnebit() {
  return {
      .name = "onebit",
      .id = kOnebitId,
      .summary = "One sign bit per value and the mean of each sign (1-bit SGD), with error feedback.",
      .options = {{"error_feedback", "true",
                   "Keep what was dropped and add it to the next gradient: true or false."}},
      .states = {"residual"},
  };
}

CodecPointer createOnebit(const CodecOptions& options) {
  return std::make_shared<Onebit>(options.boolean("error_feedback"));
}

}  // namespace hipress
