// SPDX-License-Identifier: Apache-2.0
//
// TensorFlow's tensors for HiPress' operators.
#pragma once

#include <tensorflow/core/framework/tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "frameworks/operators/submission.h"

namespace hipress::tensorflow_operators {

namespace tf = ::tensorflow;

/// The element type of the engine. Collectives that do not compute send unsigned elements as signed ones of
/// the same size; operators that combine values do not take these types. A complex number is two real ones,
/// which is right for sums and averages alone. elementText() distinguishes them.
inline std::optional<DType> dtypeOf(tf::DataType type) {
  switch (type) {
    case tf::DT_FLOAT:
    case tf::DT_COMPLEX64:
      return DType::kFloat32;
    case tf::DT_DOUBLE:
    case tf::DT_COMPLEX128:
      return DType::kFloat64;
    case tf::DT_HALF:
      return DType::kFloat16;
    case tf::DT_BFLOAT16:
      return DType::kBFloat16;
    case tf::DT_UINT8:
      return DType::kUInt8;
    case tf::DT_INT8:
      return DType::kInt8;
    case tf::DT_INT16:
    case tf::DT_UINT16:
      return DType::kInt16;
    case tf::DT_INT32:
    case tf::DT_UINT32:
      return DType::kInt32;
    case tf::DT_INT64:
    case tf::DT_UINT64:
      return DType::kInt64;
    case tf::DT_BOOL:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

/// Number of the engine's elements in an element of TensorFlow.
inline uint64_t partsOf(tf::DataType type) {
  return tf::DataTypeIsComplex(type) ? 2 : 1;
}

inline uint64_t countOf(const tf::Tensor& tensor) {
  return static_cast<uint64_t>(tensor.NumElements()) * partsOf(tensor.dtype());
}

/// `place`: TensorPlace::name().
inline TensorView viewOf(const tf::Tensor& tensor, std::string place) {
  return {tensor.data(), dtypeOf(tensor.dtype()), countOf(tensor), std::move(place)};
}

/// The text by which ranks distinguish such types in specifications: " of uint16"; empty for other types.
inline std::string elementText(tf::DataType type) {
  switch (type) {
    case tf::DT_UINT16:
      return " of uint16";
    case tf::DT_UINT32:
      return " of uint32";
    case tf::DT_UINT64:
      return " of uint64";
    case tf::DT_COMPLEX64:
      return " of complex64";
    case tf::DT_COMPLEX128:
      return " of complex128";
    default:
      return "";
  }
}

/// The shape in the form that ranks compare: "[64, 3, 3, 3]".
inline std::string shapeText(const tf::TensorShape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.dims(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape.dim_size(i));
  return text + "]";
}

/// Keeps the memory of both tensors: the engine may release it after TensorFlow has.
inline std::shared_ptr<void> ownerOf(const tf::Tensor& input, const tf::Tensor& output) {
  return std::make_shared<std::pair<tf::Tensor, tf::Tensor>>(input, output);
}

}  // namespace hipress::tensorflow_operators
