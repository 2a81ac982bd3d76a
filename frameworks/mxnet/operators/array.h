// SPDX-License-Identifier: Apache-2.0
//
// MXNet's arrays for the engine: a handle that lives as long as an operation, and the place of the values.
#pragma once

#include <mxnet/c_api.h>

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "frameworks/operators/submission.h"

namespace hipress::mxnet_operators {

/// A second handle to the same values, so that they outlive the Python object. Empty: no array.
class SharedArray {
 public:
  SharedArray() = default;
  /// Throws InvalidArgument.
  explicit SharedArray(NDArrayHandle array) {
    if (array != nullptr && MXShallowCopyNDArray(array, &handle_) != 0)
      throw invalidArgument(std::string("MXNet does not share the array: ") + MXGetLastError());
  }
  SharedArray(SharedArray&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  SharedArray& operator=(SharedArray&&) = delete;
  ~SharedArray() {
    if (handle_ != nullptr) MXNDArrayFree(handle_);
  }

  NDArrayHandle handle() const { return handle_; }

 private:
  NDArrayHandle handle_ = nullptr;
};

/// MXNet gives element types with mshadow's numbers.
inline std::optional<DType> dtypeOf(int number) {
  switch (number) {
    case 0:
      return DType::kFloat32;
    case 1:
      return DType::kFloat64;
    case 2:
      return DType::kFloat16;
    case 3:
      return DType::kUInt8;
    case 4:
      return DType::kInt32;
    case 5:
      return DType::kInt8;
    case 6:
      return DType::kInt64;
    case 7:
      return DType::kBool;
    case 8:
      return DType::kInt16;
    case 12:
      return DType::kBFloat16;
    default:
      return std::nullopt;
  }
}

/// "cpu", "cuda:0"; empty: HiPress does not know the place.
inline std::string placeOf(const DLContext& place) {
  switch (place.device_type) {
    case kDLCPU:
    case kDLCPUPinned:
      return "cpu";
    case kDLGPU:
      return "cuda:" + std::to_string(place.device_id);
    default:
      return "";
  }
}

struct ArrayView {
  TensorView values;
  std::shared_ptr<void> owner;
};

/// The view of an array that MXNet's engine has released for use. It never waits. MXNDArrayGetData() would
/// wait for this very operation if the values are in oneDNN's own order. `name`: the tensor's name for
/// errors. Throws Unsupported.
inline ArrayView viewOf(NDArrayHandle array, const std::string& name) {
  int dtype = -1;
  DLManagedTensorHandle handle = nullptr;
  if (MXNDArrayGetDType(array, &dtype) != 0 || MXNDArrayToDLPack(array, &handle) != 0) {
    const std::string reason = MXGetLastError();
    if (reason.find("MKLDNN") != std::string::npos) {
      throw unsupported("tensor '" + name +
                        "': an inference has left its values in oneDNN's own order, which ranks cannot "
                        "combine; give a copy of the array, array.copy()");
    }
    throw unsupported("tensor '" + name + "': MXNet does not show its values: " + reason);
  }
  std::shared_ptr<DLManagedTensor> shown(static_cast<DLManagedTensor*>(handle),
                                         [](DLManagedTensor* tensor) { tensor->deleter(tensor); });
  const DLTensor& tensor = shown->dl_tensor;
  const auto* sizes = tensor.shape;
  ArrayView view;
  view.values.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  view.values.dtype = dtypeOf(dtype);
  view.values.count = std::accumulate(sizes, sizes + tensor.ndim, uint64_t{1}, std::multiplies<>());
  view.values.device = placeOf(tensor.ctx);
  view.owner = std::move(shown);
  return view;
}

}  // namespace hipress::mxnet_operators
