// SPDX-License-Identifier: Apache-2.0
#include "core/codec/operator_codec.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/codec/registry.h"

namespace hipress {

void checkOperatorStates(const Codec& codec, size_t count, std::span<const OperatorState> states) {
  for (const OperatorState& state : states) {
    if (state.values.empty()) continue;
    const std::string what = "codec " + std::string(codec.name()) + ": state " + std::string(state.name);
    const auto kept = std::ranges::find(codec.states(), state.name, &CodecState::name);
    if (kept == codec.states().end())
      throw invalidArgument(what + " was passed, but " + codec.signature() + " does not keep it");
    if (state.values.size() != kept->count(count)) {
      std::string wanted;
      if (kept->block != 1) {
        wanted = "; it has one for each " + std::to_string(kept->block) + " of them: pass " +
                 std::to_string(kept->count(count));
      }
      throw invalidArgument(what + " has " + std::to_string(state.values.size()) +
                            " elements, the gradient " + std::to_string(count) + wanted);
    }
  }
}

std::span<float> operatorStateValues(std::string_view name, std::span<const OperatorState> states) {
  const auto state = std::ranges::find(states, name, &OperatorState::name);
  return state == states.end() ? std::span<float>() : state->values;
}

CodecPointer operatorCodec(const std::string& name, const std::string& options) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, CodecPointer> configured;
  const std::lock_guard lock(mutex);
  const auto known = configured.find({name, options});
  if (known != configured.end()) return known->second;
  CodecPointer codec = createCodec(options.empty() ? name : name + "(" + options + ")");
  configured.emplace(std::pair(name, options), codec);
  return codec;
}

std::string operatorArgument(std::string_view state) {
  constexpr std::string_view kTaken[] = {"gradient", "options", "seed", "step", "tensor", "scale", "message"};
  const bool taken = std::ranges::find(kTaken, state) != std::end(kTaken);
  return std::string(state) + (taken ? "_state" : "");
}

OperatorMessage operatorEncode(const Codec& codec, std::span<const float> input,
                               std::span<const OperatorState> states, const EncodeContext& context) {
  checkOperatorStates(codec, input.size(), states);
  const size_t count = input.size();
  const bool kept = std::ranges::any_of(states, [](const auto& state) { return !state.values.empty(); });
  // The codec reads the caller's states, or zeros, and writes the new ones to `memory` first.
  std::vector<float> zeros;
  std::unique_ptr<float[]> memory;
  std::vector<const float*> before;
  std::vector<float*> after;
  if (kept) {
    size_t floats = 0;
    for (const CodecState& state : codec.states()) {
      if (operatorStateValues(state.name, states).empty())
        zeros.resize(std::max(zeros.size(), state.count(count)));
      floats += state.count(count);
    }
    memory = std::make_unique_for_overwrite<float[]>(floats);
    float* next = memory.get();
    for (const CodecState& state : codec.states()) {
      const std::span<float> values = operatorStateValues(state.name, states);
      after.push_back(next);
      before.push_back(values.empty() ? zeros.data() : values.data());
      next += state.count(count);
    }
  }
  const size_t room = codec.maxEncodedBytes(count);
  OperatorMessage message{std::make_unique_for_overwrite<std::byte[]>(room)};
  EncodeContext scaled = context;
  scaled.scale *= codec.gradientFactor();
  message.size = codec.encode(input, {before, after}, scaled, {message.bytes.get(), room});
  if (message.size == 0) return message;
  for (size_t i = 0; i < after.size(); ++i) {
    const std::span<float> values = operatorStateValues(codec.states()[i].name, states);
    std::copy_n(after[i], values.size(), values.data());
  }
  return message;
}

}  // namespace hipress
