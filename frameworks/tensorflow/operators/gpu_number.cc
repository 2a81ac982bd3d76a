// SPDX-License-Identifier: Apache-2.0
//
// HipressGpuNumber tells Python which GPU a device of TensorFlow is: TensorFlow numbers the devices that a
// program can see, and splits GPUs.
#include <tensorflow/core/framework/common_shape_fns.h>
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>

#include "frameworks/tensorflow/operators/gpu_place.h"
#include "frameworks/tensorflow/operators/status.h"

namespace hipress::tensorflow_operators {
namespace {

class GpuNumber final : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    guarded(context, [&] {
      tensorflow::Tensor* number = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(0, {}, &number));
      number->scalar<int32_t>()() = GpuPlace::numberOf(context);
    });
  }
};

}  // namespace

REGISTER_OP("HipressGpuNumber")
    .Output("number: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape);
REGISTER_KERNEL_BUILDER(Name("HipressGpuNumber").Device(tensorflow::DEVICE_GPU).HostMemory("number"),
                        GpuNumber);

}  // namespace hipress::tensorflow_operators
