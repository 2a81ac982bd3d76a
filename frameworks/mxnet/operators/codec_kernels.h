// SPDX-License-Identifier: Apache-2.0
//
// The operators of any codec in MXNet. codecs.cc registers them for the codecs of a running process, and the
// files of `hipress compll build -f mxnet` for one codec.
//
// They are custom operators of MXNet's extension interface (lib_api.h, version 11, MXNet 1.8 and 1.9), which
// needs shapes before values. So a message is at the start of an array with room for the longest message, and
// a second output has its length.
#pragma once

#include <mxnet/lib_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/codec/operator_codec.h"

namespace hipress::mxnet_operators {

using ::mxnet::ext::MXReturnValue;
using ::mxnet::ext::MXTensor;
using Attributes = std::unordered_map<std::string, std::string>;
using Shapes = std::vector<std::vector<unsigned int>>;
using Types = std::vector<int>;
using Arrays = std::vector<MXTensor>;

/// The codec's name, and its states in the order of encode's arguments.
struct OperatorNames {
  std::string codec;
  std::vector<std::string> states;
};

/// Turns an exception into an error of the operator, with the same text.
template <typename Body>
MXReturnValue guarded(const Body& body) {
  try {
    body();
    return ::mxnet::ext::MX_SUCCESS;
  } catch (const std::exception& error) {
    MX_ERROR_MSG << error.what();
    return ::mxnet::ext::MX_FAIL;
  }
}

inline std::string text(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? "" : found->second;
}

inline int64_t whole(const Attributes& attributes, const std::string& name) {
  const std::string value = text(attributes, name);
  return value.empty() ? 0 : std::stoll(value);
}

inline CodecPointer codecOf(const OperatorNames& names, const Attributes& attributes) {
  return operatorCodec(names.codec, text(attributes, "options"));
}

inline std::span<float> floats(MXTensor& array) {
  return {array.data<float>(), static_cast<size_t>(array.size())};
}

/// The filled part of a message's array; `length` has its size.
inline ConstBytes message(MXTensor& array, MXTensor& length) {
  const int64_t size = *length.data<int64_t>();
  if (size < 0 || size > array.size()) {
    throw invalidArgument("the message's length " + std::to_string(size) + " is not in 0 to " +
                          std::to_string(array.size()) + ", the size of its array");
  }
  return {reinterpret_cast<const std::byte*>(array.data<uint8_t>()), static_cast<size_t>(size)};
}

/// gradient, states, step -> message, its length. Updates the states in place.
inline MXReturnValue encode(const OperatorNames& names, const Attributes& attributes, Arrays* inputs,
                            Arrays* outputs) {
  return guarded([&] {
    const CodecPointer codec = codecOf(names, attributes);
    std::vector<OperatorState> states;
    for (size_t i = 0; i < names.states.size(); ++i) {
      // The caller also passes states that these options do not use (error_feedback=false). These stay.
      const auto kept = codec->states();
      if (std::ranges::find(kept, names.states[i], &CodecState::name) != kept.end())
        states.push_back({names.states[i], floats((*inputs)[i + 1])});
    }
    EncodeContext number;
    number.seed = static_cast<uint64_t>(whole(attributes, "seed"));
    number.step = static_cast<uint64_t>(*inputs->back().data<int64_t>());
    number.tensor = static_cast<uint32_t>(whole(attributes, "tensor"));
    const std::string scale = text(attributes, "scale");
    if (!scale.empty()) number.scale = std::stof(scale);
    const OperatorMessage encoded = operatorEncode(*codec, floats((*inputs)[0]), states, number);
    MXTensor& output = (*outputs)[0];
    std::memset(output.data<uint8_t>(), 0, static_cast<size_t>(output.size()));
    if (encoded.size > 0) std::memcpy(output.data<uint8_t>(), encoded.bytes.get(), encoded.size);
    *(*outputs)[1].data<int64_t>() = static_cast<int64_t>(encoded.size);
  });
}

/// message, its length -> values; the attribute `count` is their number.
inline MXReturnValue decode(const OperatorNames& names, const Attributes& attributes, Arrays* inputs,
                            Arrays* outputs) {
  return guarded([&] {
    codecOf(names, attributes)
        ->decode(message((*inputs)[0], (*inputs)[1]), floats((*outputs)[0]), DecodeMode::kAssign);
  });
}

/// message, its length, values -> values + decoded; in place with out=values.
inline MXReturnValue decodeAccumulate(const OperatorNames& names, const Attributes& attributes,
                                      Arrays* inputs, Arrays* outputs) {
  return guarded([&] {
    const std::span<float> sums = floats((*outputs)[0]);
    const std::span<float> values = floats((*inputs)[2]);
    if (sums.data() != values.data()) std::memmove(sums.data(), values.data(), values.size_bytes());
    codecOf(names, attributes)->decode(message((*inputs)[0], (*inputs)[1]), sums, DecodeMode::kAccumulate);
  });
}

/// MXNet asks these before it has values. -1 stands for a type that it does not know yet.
inline void checkTypes(const OperatorNames& names, const Types& expected, Types* types) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if ((*types)[i] == -1) (*types)[i] = expected[i];
    if ((*types)[i] != expected[i])
      throw invalidArgument("codec " + names.codec + ": input " + std::to_string(i) + " has the wrong type");
  }
}

inline size_t elements(const std::vector<unsigned int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

inline MXReturnValue encodeTypes(const OperatorNames& names, Types* inputs, Types* outputs) {
  return guarded([&] {
    Types expected(names.states.size() + 1, ::mxnet::ext::kFloat32);
    expected.push_back(::mxnet::ext::kInt64);
    *outputs = {::mxnet::ext::kUint8, ::mxnet::ext::kInt64};
    checkTypes(names, expected, inputs);
  });
}

inline MXReturnValue encodeShapes(const OperatorNames& names, const Attributes& attributes, Shapes* inputs,
                                  Shapes* outputs) {
  return guarded([&] {
    if (elements(inputs->back()) != 1) throw invalidArgument("codec " + names.codec + ": step is one number");
    const size_t bytes = codecOf(names, attributes)->maxEncodedBytes(elements((*inputs)[0]));
    *outputs = {{static_cast<unsigned int>(bytes)}, {1}};
  });
}

/// The operator writes the states, too.
inline MXReturnValue encodeMutates(const OperatorNames& names, Types* inputs) {
  inputs->resize(names.states.size());
  std::iota(inputs->begin(), inputs->end(), 1);
  return ::mxnet::ext::MX_SUCCESS;
}

inline MXReturnValue decodeTypes(const OperatorNames& names, Types* inputs, Types* outputs) {
  return guarded([&] {
    *outputs = {::mxnet::ext::kFloat32};
    checkTypes(names, {::mxnet::ext::kUint8, ::mxnet::ext::kInt64}, inputs);
  });
}

inline MXReturnValue decodeShapes(const OperatorNames& names, const Attributes& attributes, Shapes* outputs) {
  return guarded([&] {
    if (!attributes.contains("count"))
      throw invalidArgument("codec " + names.codec + ": decoding needs the attribute count");
    *outputs = {{static_cast<unsigned int>(whole(attributes, "count"))}};
  });
}

inline MXReturnValue accumulateTypes(const OperatorNames& names, Types* inputs, Types* outputs) {
  return guarded([&] {
    *outputs = {::mxnet::ext::kFloat32};
    checkTypes(names, {::mxnet::ext::kUint8, ::mxnet::ext::kInt64, ::mxnet::ext::kFloat32}, inputs);
  });
}

inline MXReturnValue accumulateShapes(Shapes* inputs, Shapes* outputs) {
  *outputs = {(*inputs)[2]};
  return ::mxnet::ext::MX_SUCCESS;
}

inline MXReturnValue counts(size_t inputs, size_t outputs, int* inputCount, int* outputCount) {
  *inputCount = static_cast<int>(inputs);
  *outputCount = static_cast<int>(outputs);
  return ::mxnet::ext::MX_SUCCESS;
}

}  // namespace hipress::mxnet_operators
