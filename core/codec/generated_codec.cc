// SPDX-License-Identifier: Apache-2.0
#include "core/codec/generated_codec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "core/base/error.h"
#include "core/codec/text/arguments.h"

namespace hipress {
namespace {

constexpr const char* kErrorFeedback = "error_feedback";
constexpr const char* kResidual = "residual";

/// The options of a codec with a residual that its program need not declare.
const std::array<CodecOption, 2>& factors() {
  static const std::array<CodecOption, 2> all{
      {{"residual_factor", "1",
        "The factor of the residual that is added to the next gradient: float in [0, 1]."},
       {"gradient_factor", "1",
        "The factor of the gradient that the residual is added to: float in (0, 1]."}}};
  return all;
}

bool isFactor(const std::string& option) {
  return std::ranges::any_of(factors(), [&](const CodecOption& factor) { return factor.name == option; });
}

bool declares(const GeneratedCodecInterface& face, const std::string& name) {
  return std::ranges::any_of(face.options, [&](const CodecOption& option) { return option.name == name; });
}

std::string shortest(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {std::begin(text), end};
}

[[noreturn]] void refuseOption(const CodecOptions& options, const std::string& option,
                               const std::string& allowed) {
  throw invalidArgument("codec " + options.codec() + ": option " + option + " is " + options.text(option) +
                        "; it must be " + allowed);
}

}  // namespace

CodecDescription describeGenerated(const GeneratedCodecInterface& face) {
  CodecDescription description{face.name, face.id, face.summary, face.options, face.states};
  if (!face.states.empty() && !declares(face, kErrorFeedback)) {
    description.options.push_back(
        {kErrorFeedback, "true", "Whether the residual is added to the next gradient: true or false."});
  }
  if (std::ranges::find(face.states, kResidual, &CodecState::name) != face.states.end()) {
    for (const CodecOption& factor : factors()) {
      if (!declares(face, factor.name)) description.options.push_back(factor);
    }
  }
  return description;
}

GeneratedCodec::GeneratedCodec(const GeneratedCodecInterface& face, const CodecOptions& values,
                               bool keepsStates)
    : face_(face), keepsStates_(keepsStates) {
  std::string options;
  for (const CodecOption& option : describeGenerated(face).options) {
    // Without factors the signature is the one that a rank without these options has.
    const bool implicit = isFactor(option.name) && !declares(face, option.name);
    if (implicit && values.number(option.name) == 1.0) continue;
    options += (options.empty() ? "" : ", ") + option.name + "=" + values.text(option.name);
  }
  signature_ = face.name + (options.empty() ? "" : "(" + options + ")");
  if (!face.fingerprint.empty()) signature_ += "#" + face.fingerprint;
}

std::span<const CodecState> GeneratedCodec::states() const {
  return keepsStates_ ? std::span<const CodecState>(face_.states) : std::span<const CodecState>();
}

size_t GeneratedCodec::maxEncodedBytes(size_t count) const {
  if (count > kMostElements) return std::numeric_limits<size_t>::max();  // it travels raw
  return count == 0 ? 0 : bound(count);
}

size_t GeneratedCodec::encode(std::span<const float> input, const EncodeStates& states,
                              const EncodeContext& context, Bytes output) const {
  checkCount(input.size());
  checkEncodeArguments(*this, input, states, output);
  return input.empty() ? 0 : encodeValues(input, states, context, output);
}

void GeneratedCodec::checkCount(size_t count) const {
  if (count > kMostElements) {
    throw invalidArgument("codec " + face_.name + ": " + std::to_string(count) +
                          " elements in one piece; it takes " + std::to_string(kMostElements) +
                          " at most: use more partitions");
  }
}

void GeneratedCodec::refuse(const std::string& reason) const {
  throw corruptPayload("codec " + face_.name + ": " + reason);
}

void GeneratedCodec::wrong(const std::string& reason) const {
  throw invalidArgument("codec " + face_.name + ": its encode is wrong: " + reason);
}

double checkedOption(const CodecOptions&, const std::string&, double value) {
  return value;
}

double checkedOption(const CodecOptions& options, const std::string& option, double value,
                     const Interval& interval) {
  const bool above = interval.lowOpen ? value > interval.low : value >= interval.low;
  const bool below = interval.highOpen ? value < interval.high : value <= interval.high;
  if (!above || !below) {
    refuseOption(options, option,
                 std::string("in ") + (interval.lowOpen ? "(" : "[") + shortest(interval.low) + ", " +
                     shortest(interval.high) + (interval.highOpen ? ")" : "]"));
  }
  return value;
}

double checkedFactor(const CodecOptions& options, const std::string& option, const Interval& interval) {
  const double value = checkedOption(options, option, options.number(option), interval);
  if (value != 1.0 && !options.boolean(kErrorFeedback)) {
    throw invalidArgument(
        "codec " + options.codec() + ": option " + option + " is " + options.text(option) +
        ", a factor beside the residual, and with error_feedback=false no residual is kept: "
        "leave the option out, or set error_feedback=true");
  }
  return value;
}

double checkedOption(const CodecOptions& options, const std::string& option, double value, OneOf values) {
  if (std::ranges::find(values, value) == values.end()) {
    std::string allowed;
    for (const double one : values) allowed += (allowed.empty() ? "one of " : ", ") + shortest(one);
    refuseOption(options, option, allowed);
  }
  return value;
}

}  // namespace hipress
