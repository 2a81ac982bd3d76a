// SPDX-License-Identifier: Apache-2.0
//
// The GPU and the stream of an operator.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>
#include <xla/stream_executor/stream.h>

#include <memory>

#include "core/base/error.h"
#include "core/device/operators/process_operators.h"

namespace hipress::tensorflow_operators {

class GpuPlace {
 public:
  /// Throws Unsupported if TensorFlow does not tell the stream.
  explicit GpuPlace(tensorflow::OpKernelContext* context) {
    const auto* const info = context->device()->tensorflow_accelerator_device_info();
    const auto* const device = context->op_device_context();
    const auto* const stream = device == nullptr ? nullptr : device->stream();
    if (info == nullptr || stream == nullptr) {
      throw unsupported("TensorFlow does not tell the stream of its device " + context->device()->name() +
                        "; HiPress' GPU operators work on NVIDIA GPUs");
    }
    // May be null, which is the default stream.
    stream_ = stream->platform_specific_handle().stream;
    operators_ = processOperators(info->gpu_id);
  }

  DeviceOperators& operators() const { return *operators_; }
  void* stream() const { return stream_; }

 private:
  void* stream_ = nullptr;
  std::shared_ptr<DeviceOperators> operators_;
};

}  // namespace hipress::tensorflow_operators
