// SPDX-License-Identifier: Apache-2.0
//
// A small codec that has everything that a codec can have: two states, another codec for aggregates, threads,
// options of every type, and a failure at the very end. A value becomes the nearest of -127 ... 127.
//
//     momentum' = factor * momentum + scale * gradient
//     sent      = round(momentum' + residual)
//     residual' = momentum' + residual - sent
//
// Aggregators encode without momentum. The compiler sets NAME, NUMBER and FINGERPRINT, and for wrong
// descriptions MOMENTUM_BLOCK or RESIDUAL_BLOCK.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/codec/plugin.h"
#include "core/codec/text/arguments.h"

#ifndef MOMENTUM_BLOCK
#define MOMENTUM_BLOCK 1
#endif
#ifndef RESIDUAL_BLOCK
#define RESIDUAL_BLOCK 1
#endif

namespace hipress {
namespace {

constexpr size_t kChunk = 1000;

class Momentum final : public Codec {
 public:
  Momentum(bool errorFeedback, double factor, bool ofAggregate)
      : errorFeedback_(errorFeedback), factor_(static_cast<float>(factor)), ofAggregate_(ofAggregate) {
    if (errorFeedback && !ofAggregate) states_.push_back({"momentum"});
    if (errorFeedback) states_.push_back({"residual"});
  }

  std::string_view name() const override { return NAME; }
  std::string signature() const override {
    return std::string(NAME) + "(error_feedback=" + (errorFeedback_ ? "true" : "false") + ")";
  }
  CodecId id() const override { return NUMBER; }
  std::span<const CodecState> states() const override { return states_; }
  CodecPointer forAggregate() const override {
    return std::make_shared<Momentum>(errorFeedback_, factor_, true);
  }
  size_t maxEncodedBytes(size_t count) const override { return count; }

  size_t encode(std::span<const float> input, const EncodeStates& states, const EncodeContext& context,
                Bytes output) const override {
    checkEncodeArguments(*this, input, states, output);
    std::atomic<bool> finite{true};
    forChunks(input.size(), context.parallel, [&](size_t begin, size_t end) {
      bool all = true;
      for (size_t i = begin; i < end; ++i) all &= encodeOne(input, states, context.scale, output, i);
      if (!all) finite = false;
    });
    return finite ? input.size() : 0;
  }

 protected:
  void decodePayload(ConstBytes payload, std::span<float> output, DecodeMode mode,
                     Parallel* parallel) const override {
    checkPayloadSize(*this, payload, output.size(), output.size());
    forChunks(output.size(), parallel, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const auto value = static_cast<float>(static_cast<int8_t>(payload[i]));
        output[i] = mode == DecodeMode::kAssign ? value : output[i] + value;
      }
    });
  }

 private:
  template <typename Body>
  static void forChunks(size_t count, Parallel* parallel, const Body& body) {
    if (parallel == nullptr) return body(0, count);
    parallel->run((count + kChunk - 1) / kChunk,
                  [&](size_t chunk) { body(chunk * kChunk, std::min(count, (chunk + 1) * kChunk)); });
  }

  bool encodeOne(std::span<const float> input, const EncodeStates& states, float scale, Bytes output,
                 size_t i) const {
    const bool kept = !states.before.empty();
    const size_t residual = states_.size() - 1;
    float value = scale * input[i];
    if (!ofAggregate_ && kept) {
      value = factor_ * states.before[0][i] + value;
      states.after[0][i] = value;
    }
    const float total = value + (kept ? states.before[residual][i] : 0.0f);
    const float sent = std::clamp(std::nearbyint(total), -127.0f, 127.0f);
    if (kept) states.after[residual][i] = total - sent;
    output[i] = static_cast<std::byte>(std::isfinite(total) ? static_cast<int8_t>(sent) : 0);
    return std::isfinite(total);
  }

  bool errorFeedback_;
  float factor_;
  bool ofAggregate_;
  std::vector<CodecState> states_;
};

CodecDescription describe() {
  return {
      .name = NAME,
      .id = NUMBER,
      .summary = "Momentum and rounding, for tests.",
      .options = {{"error_feedback", "true", "Whether states are kept: true or false."},
                  {"factor", "0.5", "What is left of the momentum: a number in [0, 1)."},
                  {"label", "plain", "Nothing: any word."},
                  {"level", "3", "Nothing: an integer."}},
      .states = {{"momentum", MOMENTUM_BLOCK}, {"residual", RESIDUAL_BLOCK}},
  };
}

CodecPointer create(const CodecOptions& options) {
  const double factor = options.number("factor");
  if (!(factor >= 0 && factor < 1)) throw invalidArgument("codec " NAME ": factor is not in [0, 1)");
  if (options.text("label").empty() || options.integer("level") == 0)
    throw invalidArgument("no label or level");
  return std::make_shared<Momentum>(options.boolean("error_feedback"), factor, false);
}

}  // namespace
}  // namespace hipress

const hipress::CodecPlugin* hipress_codec_plugin() {
  static const hipress::CodecPlugin plugin = {
      .compiler = __VERSION__,
      .describe = hipress::describe,
      .create = hipress::create,
      .fingerprint = FINGERPRINT,
  };
  return &plugin;
}
