// SPDX-License-Identifier: Apache-2.0
//
// The kernels of any codec's operators in PyTorch. codecs.cc registers them for the codecs of a running
// process, and the files of `hipress compll build -f torch` for one codec. They need torch's stable ABI of
// version 2.10, the first one that passes strings, or newer.
//
// Errors leave as C++ exceptions. torch's dispatcher turns them into a RuntimeError with the same text.
#pragma once

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/codec/operator_codec.h"

// Hidden as torch's own stable namespace is: every library has its copy, made for the torch it targets.
HIDDEN_NAMESPACE_BEGIN(hipress, torch_operators)

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

/// The arguments of an encode besides tensors: the fields of EncodeContext, in torch's types.
struct EncodeNumbers {
  int64_t seed;
  int64_t step;
  int64_t tensor;
  double scale;
};

/// A state by its name in the schema. Without a tensor the caller keeps no such state.
struct StateArgument {
  std::string_view name;
  std::optional<Tensor> values;
};

inline std::string typeName(ScalarType type) {
  switch (type) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::ComplexFloat:
      return "complex64";
    case ScalarType::ComplexDouble:
      return "complex128";
    case ScalarType::Byte:
      return "uint8";
    case ScalarType::Char:
      return "int8";
    case ScalarType::Short:
      return "int16";
    case ScalarType::Int:
      return "int32";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Bool:
      return "bool";
    default:
      return "another type";
  }
}

/// Throws InvalidArgument or Unsupported unless the tensor is `type`, contiguous and in host memory.
inline void checkTensor(const Tensor& tensor, ScalarType type, const std::string& what) {
  if (!tensor.is_cpu()) throw unsupported(what + " must be a CPU tensor; call .cpu() first");
  if (tensor.scalar_type() != type) {
    throw invalidArgument(what + " must be of dtype " + typeName(type) + ", not " +
                          typeName(tensor.scalar_type()));
  }
  if (!tensor.is_contiguous()) throw invalidArgument(what + " must be contiguous; call .contiguous() first");
}

inline std::span<float> floats(const Tensor& tensor, const std::string& what) {
  checkTensor(tensor, ScalarType::Float, what);
  return {static_cast<float*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel())};
}

inline ConstBytes message(const Tensor& tensor) {
  checkTensor(tensor, ScalarType::Byte, "the payload");
  return {static_cast<const std::byte*>(tensor.data_ptr()), static_cast<size_t>(tensor.numel())};
}

/// Returns the message, with its exact length. Updates the given states in place.
inline Tensor encode(const std::string& codecName, const Tensor& gradient,
                     std::span<const StateArgument> states, const std::string& options,
                     const EncodeNumbers& numbers) {
  const CodecPointer codec = operatorCodec(codecName, options);
  const std::span<const float> input = floats(gradient, "the gradient");
  std::vector<OperatorState> held;
  for (const StateArgument& state : states) {
    if (!state.values) continue;
    const std::string what = "the state " + std::string(state.name);
    held.push_back({state.name, floats(*state.values, what)});
    if (held.back().values.empty() && !input.empty())
      throw invalidArgument(what + " has no elements, the gradient " + std::to_string(input.size()));
  }
  EncodeContext context;
  context.seed = static_cast<uint64_t>(numbers.seed);
  context.step = static_cast<uint64_t>(numbers.step);
  context.tensor = static_cast<uint32_t>(numbers.tensor);
  context.scale = static_cast<float>(numbers.scale);
  const OperatorMessage encoded = operatorEncode(*codec, input, held, context);
  Tensor output = torch::stable::empty({static_cast<int64_t>(encoded.size)}, ScalarType::Byte);
  if (encoded.size > 0) std::memcpy(output.data_ptr(), encoded.bytes.get(), encoded.size);
  return output;
}

/// Returns `count` decoded values.
inline Tensor decode(const std::string& codecName, const Tensor& payload, int64_t count,
                     const std::string& options) {
  const CodecPointer codec = operatorCodec(codecName, options);
  if (count < 0) throw invalidArgument("count is " + std::to_string(count) + ", must not be negative");
  const ConstBytes bytes = message(payload);
  Tensor output = torch::stable::empty({count}, ScalarType::Float);
  codec->decode(bytes, floats(output, "the output"), DecodeMode::kAssign);
  return output;
}

/// output += the decoded values.
inline void decodeAccumulate(const std::string& codecName, const Tensor& payload, const Tensor& output,
                             const std::string& options) {
  operatorCodec(codecName, options)
      ->decode(message(payload), floats(output, "the output"), DecodeMode::kAccumulate);
}

HIDDEN_NAMESPACE_END(hipress, torch_operators)
