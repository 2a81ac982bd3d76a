// SPDX-License-Identifier: Apache-2.0
//
// Where the tensors of a kernel are. The kernels of synchronize.h and collectives.h have tensors in host
// memory; OnDevice makes kernels of them whose tensors are on a device.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <cstring>
#include <memory>
#include <string>

#include "core/device/operators/device_operators.h"

namespace hipress::tensorflow_operators {

/// Host memory, or a device and its stream on which TensorFlow computes the tensors.
struct TensorPlace {
  std::shared_ptr<DeviceOperators> operators;  ///< nullptr: host memory.
  void* stream = nullptr;

  std::shared_ptr<Device> device() const { return operators == nullptr ? nullptr : operators->device(); }
  /// See TensorView::device.
  std::string name() const { return operators == nullptr ? "cpu" : operators->device()->name(); }

  /// Within the place: at once, or in the order of the stream.
  void copy(void* to, const void* from, size_t bytes) const {
    if (bytes == 0) return;
    if (operators == nullptr) {
      std::memcpy(to, from, bytes);
    } else {
      operators->copy(stream, static_cast<std::byte*>(to), {static_cast<const std::byte*>(from), bytes});
    }
  }
};

/// `Kernel` with tensors on a device. `Place` finds the device and the stream of a call.
template <typename Kernel, typename Place>
class OnDevice final : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  TensorPlace placeOf(tensorflow::OpKernelContext* context) const override {
    return Place(context).tensors();
  }
};

}  // namespace hipress::tensorflow_operators
