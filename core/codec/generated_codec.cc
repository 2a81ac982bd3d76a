// SPDX-License-Identifier: Apache-2.0
#include "core/codec/generated_codec.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/base/error.h"
#include "core/codec/text/arguments.h"

namespace hipress {
namespace {

constexpr const char* kErrorFeedback = "error_feedback";

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
  const auto isErrorFeedback = [](const CodecOption& option) { return option.name == kErrorFeedback; };
  if (!face.states.empty() && std::ranges::none_of(face.options, isErrorFeedback)) {
    description.options.push_back(
        {kErrorFeedback, "true", "Whether the residual is added to the next gradient: true or false."});
  }
  return description;
}

GeneratedCodec::GeneratedCodec(const GeneratedCodecInterface& face, const CodecOptions& values,
                               bool keepsStates)
    : face_(face), keepsStates_(keepsStates) {
  std::string options;
  for (const CodecOption& option : describeGenerated(face).options) {
    options += (options.empty() ? "" : ", ") + option.name + "=" + values.text(option.name);
  }
  signature_ = face.name + (options.empty() ? "" : "(" + options + ")");
  if (!face.fingerprint.empty()) signature_ += "#" + face.fingerprint;
}

std::span<const std::string> GeneratedCodec::states() const {
  return keepsStates_ ? std::span<const std::string>(face_.states) : std::span<const std::string>();
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

double checkedOption(const CodecOptions& options, const std::string& option, double value, OneOf values) {
  if (std::ranges::find(values, value) == values.end()) {
    std::string allowed;
    for (const double one : values) allowed += (allowed.empty() ? "one of " : ", ") + shortest(one);
    refuseOption(options, option, allowed);
  }
  return value;
}

}  // namespace hipress
