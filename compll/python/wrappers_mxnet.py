# SPDX-License-Identifier: Apache-2.0
"""C++ for MXNet's operators of one codec: hipress_<codec>_encode, _decode and _decode_accumulate.

They are custom operators of MXNet's extension interface (lib_api.h, version 11, MXNet 1.8 and 1.9): a shared library of
both files and MXNet's lib_api.cc, for mx.library.load().
"""

from __future__ import annotations

from string import Template

from hipress.compll.codec_interface import CodecInterface

_FORWARD = """(const Attributes& attributes, std::vector<MXTensor>* inputs,
                      std::vector<MXTensor>* outputs, const OpResource&)"""

_WRAPPER = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: the kernels of codec ${name} for MXNet.
${options}#include <mxnet/lib_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/codec/operator_codec.h"
#include "core/error.h"

namespace hipress_${name} {

using Attributes = std::unordered_map<std::string, std::string>;
using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;
using mxnet::ext::OpResource;

namespace {

/// Errors become the operator's, with their text.
MXReturnValue guarded(const std::function<void()>& body) {
  try {
    body();
    return mxnet::ext::MX_SUCCESS;
  } catch (const std::exception& error) {
    MX_ERROR_MSG << error.what();
    return mxnet::ext::MX_FAIL;
  }
}

std::string text(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  return found == attributes.end() ? "" : found->second;
}

int64_t whole(const Attributes& attributes, const std::string& name) {
  const std::string value = text(attributes, name);
  return value.empty() ? 0 : std::stoll(value);
}

hipress::CodecPointer codecOf(const Attributes& attributes) {
  return hipress::operatorCodec("${name}", text(attributes, "options"));
}

std::span<float> floats(MXTensor& tensor) {
  return {tensor.data<float>(), static_cast<size_t>(tensor.size())};
}

/// The part of a message's tensor that `length` says is filled.
hipress::ConstBytes message(MXTensor& tensor, MXTensor& length) {
  const int64_t size = *length.data<int64_t>();
  if (size < 0 || size > tensor.size())
    throw hipress::invalidArgument("the message's length " + std::to_string(size) + " is not in 0 to " +
                                   std::to_string(tensor.size()) + ", the size of its tensor");
  return {reinterpret_cast<const std::byte*>(tensor.data<uint8_t>()), static_cast<size_t>(size)};
}

}  // namespace

/// How many bytes a message's tensor has: MXNet must know before the values do.
MXReturnValue messageBytes(const Attributes& attributes, size_t count, size_t* bytes) {
  return guarded([&] { *bytes = codecOf(attributes)->maxEncodedBytes(count); });
}

/// gradient, states, step -> message, its length; the states are updated in place.
MXReturnValue encode${forward} {
  return guarded([&] {
    const hipress::CodecPointer codec = codecOf(attributes);
    const std::vector<std::string> names = {${names}};
    std::vector<hipress::OperatorState> states;
    for (size_t i = 0; i < names.size(); ++i) {
      // One that these options do without (error_feedback=false) has to be passed, too, and stays as it is.
      const auto kept = codec->states();
      if (std::ranges::find(kept, names[i]) != kept.end()) states.push_back({names[i], floats((*inputs)[i + 1])});
    }
    hipress::EncodeContext number;
    number.seed = static_cast<uint64_t>(whole(attributes, "seed"));
    number.step = static_cast<uint64_t>(*inputs->back().data<int64_t>());
    number.tensor = static_cast<uint32_t>(whole(attributes, "tensor"));
    const std::string scale = text(attributes, "scale");
    if (!scale.empty()) number.scale = std::stof(scale);
    const auto encoded = hipress::operatorEncode(*codec, floats((*inputs)[0]), states, number);
    MXTensor& output = (*outputs)[0];
    std::memset(output.data<uint8_t>(), 0, static_cast<size_t>(output.size()));
    std::memcpy(output.data<uint8_t>(), encoded.bytes.get(), encoded.size);
    *(*outputs)[1].data<int64_t>() = static_cast<int64_t>(encoded.size);
  });
}

/// message, its length -> as many values as the attribute `count` says
MXReturnValue decode${forward} {
  return guarded([&] {
    codecOf(attributes)->decode(message((*inputs)[0], (*inputs)[1]), floats((*outputs)[0]),
                                hipress::DecodeMode::kAssign);
  });
}

/// message, its length, values -> values + decoded
MXReturnValue decodeAccumulate${forward} {
  return guarded([&] {
    const std::span<float> sums = floats((*outputs)[0]);
    const std::span<float> values = floats((*inputs)[2]);
    if (sums.data() != values.data()) std::memmove(sums.data(), values.data(), values.size_bytes());
    codecOf(attributes)->decode(message((*inputs)[0], (*inputs)[1]), sums, hipress::DecodeMode::kAccumulate);
  });
}

}  // namespace hipress_${name}
""")

_REGISTRATION = Template("""\
// SPDX-License-Identifier: Apache-2.0
// Written by `hipress compll build`: names, arguments and shapes of codec ${name}'s operators for MXNet.
//
// Shapes are known before values in MXNet: a message lies at the beginning of a tensor that has room for the longest,
// and its length is a second output. Attributes are options, seed, tensor and scale, and for decoding options and
// count. Decoding adds in place when it is called with out=values.
#include <mxnet/lib_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

namespace hipress_${name} {

using Attributes = std::unordered_map<std::string, std::string>;
using Shapes = std::vector<std::vector<unsigned int>>;
using mxnet::ext::MXReturnValue;
using mxnet::ext::MXTensor;
using mxnet::ext::OpResource;

// In the other file.
MXReturnValue messageBytes(const Attributes& attributes, size_t count, size_t* bytes);
MXReturnValue encode${forward};
MXReturnValue decode${forward};
MXReturnValue decodeAccumulate${forward};

namespace {

constexpr int kStates = ${count};

template <int inputs, int outputs>
MXReturnValue counts(const Attributes&, int* inputCount, int* outputCount) {
  *inputCount = inputs;
  *outputCount = outputs;
  return mxnet::ext::MX_SUCCESS;
}

MXReturnValue failed(const std::string& reason) {
  MX_ERROR_MSG << "codec ${name}: " << reason;
  return mxnet::ext::MX_FAIL;
}

/// Gives inputs without a type theirs; refuses others.
MXReturnValue checkTypes(const std::vector<int>& expected, std::vector<int>* types) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if ((*types)[i] == -1) (*types)[i] = expected[i];
    if ((*types)[i] != expected[i]) return failed("input " + std::to_string(i) + " has the wrong type");
  }
  return mxnet::ext::MX_SUCCESS;
}

size_t elements(const std::vector<unsigned int>& shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, std::multiplies<>());
}

MXReturnValue encodeTypes(const Attributes&, std::vector<int>* inputs, std::vector<int>* outputs) {
  std::vector<int> expected(kStates + 1, mxnet::ext::kFloat32);
  expected.push_back(mxnet::ext::kInt64);
  *outputs = {mxnet::ext::kUint8, mxnet::ext::kInt64};
  return checkTypes(expected, inputs);
}

MXReturnValue encodeShapes(const Attributes& attributes, Shapes* inputs, Shapes* outputs) {
  if (elements(inputs->back()) != 1) return failed("the step is one number");
  size_t bytes = 0;
  const MXReturnValue result = messageBytes(attributes, elements((*inputs)[0]), &bytes);
  *outputs = {{static_cast<unsigned int>(bytes)}, {1}};
  return result;
}

MXReturnValue statesChange(const Attributes&, std::vector<int>* inputs) {
  inputs->resize(kStates);
  std::iota(inputs->begin(), inputs->end(), 1);
  return mxnet::ext::MX_SUCCESS;
}

MXReturnValue decodeTypes(const Attributes&, std::vector<int>* inputs, std::vector<int>* outputs) {
  *outputs = {mxnet::ext::kFloat32};
  return checkTypes({mxnet::ext::kUint8, mxnet::ext::kInt64}, inputs);
}

MXReturnValue decodeShapes(const Attributes& attributes, Shapes*, Shapes* outputs) {
  const auto count = attributes.find("count");
  if (count == attributes.end()) return failed("decoding needs the attribute count");
  *outputs = {{static_cast<unsigned int>(std::stoul(count->second))}};
  return mxnet::ext::MX_SUCCESS;
}

MXReturnValue accumulateTypes(const Attributes&, std::vector<int>* inputs, std::vector<int>* outputs) {
  *outputs = {mxnet::ext::kFloat32};
  return checkTypes({mxnet::ext::kUint8, mxnet::ext::kInt64, mxnet::ext::kFloat32}, inputs);
}

MXReturnValue accumulateShapes(const Attributes&, Shapes* inputs, Shapes* outputs) {
  *outputs = {(*inputs)[2]};
  return mxnet::ext::MX_SUCCESS;
}

}  // namespace

REGISTER_OP(hipress_${name}_encode)
    .setForward(encode, "cpu")
    .setParseAttrs(counts<kStates + 2, 2>)
    .setInferType(encodeTypes)
    .setInferShape(encodeShapes)
    .setMutateInputs(statesChange);

REGISTER_OP(hipress_${name}_decode)
    .setForward(decode, "cpu")
    .setParseAttrs(counts<2, 1>)
    .setInferType(decodeTypes)
    .setInferShape(decodeShapes);

REGISTER_OP(hipress_${name}_decode_accumulate)
    .setForward(decodeAccumulate, "cpu")
    .setParseAttrs(counts<3, 1>)
    .setInferType(accumulateTypes)
    .setInferShape(accumulateShapes);

}  // namespace hipress_${name}

/// MXNet calls this when it has loaded the library, in which several codecs may have such a file: hence weak.
__attribute__((weak)) mxnet::ext::MXReturnValue initialize(int version) {
  if (version >= 10700) return mxnet::ext::MX_SUCCESS;
  MX_ERROR_MSG << "codec ${name}: needs MXNet 1.7 or newer";
  return mxnet::ext::MX_FAIL;
}
""")


def wrapper(codec: CodecInterface) -> str:
    """The kernels, for the CPU."""
    names = ", ".join(f'"{state}"' for state in codec.states)
    return _WRAPPER.substitute(name=codec.name, options=codec.option_lines, names=names, forward=_FORWARD)


def registration(codec: CodecInterface) -> str:
    """The operators' names, arguments and shape functions."""
    return _REGISTRATION.substitute(name=codec.name, count=len(codec.states), forward=_FORWARD)
