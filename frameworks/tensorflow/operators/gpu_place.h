// SPDX-License-Identifier: Apache-2.0
//
// The GPU and the stream of an operator.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>
#include <xla/stream_executor/stream.h>

#include <memory>

#include "core/base/error.h"
#include "core/device/operators/process_operators.h"
#include "frameworks/tensorflow/operators/tensor_place.h"

namespace hipress::tensorflow_operators {

class GpuPlace {
 public:
  /// Throws Unsupported if TensorFlow does not tell the stream.
  explicit GpuPlace(tensorflow::OpKernelContext* context) {
    const int number = numberOf(context);
    const auto* const device = context->op_device_context();
    const auto* const stream = device == nullptr ? nullptr : device->stream();
    if (stream == nullptr) throw withoutStream(context);
    // May be null, which is the default stream.
    stream_ = stream->platform_specific_handle().stream;
    operators_ = processOperators(number);
  }

  /// CUDA's number of the GPU. Throws Unsupported on other devices.
  static int numberOf(tensorflow::OpKernelContext* context) {
    const auto* const info = context->device()->tensorflow_accelerator_device_info();
    if (info == nullptr) throw withoutStream(context);
    return info->gpu_id;
  }

  DeviceOperators& operators() const { return *operators_; }
  void* stream() const { return stream_; }
  TensorPlace tensors() const { return {operators_, stream_}; }

 private:
  static Error withoutStream(tensorflow::OpKernelContext* context) {
    return unsupported("TensorFlow does not tell the stream of its device " + context->device()->name() +
                       "; HiPress' GPU operators work on NVIDIA GPUs: run the operator on the CPU, for "
                       "example within tf.device('CPU:0')");
  }

  void* stream_ = nullptr;
  std::shared_ptr<DeviceOperators> operators_;
};

}  // namespace hipress::tensorflow_operators
