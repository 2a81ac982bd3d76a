// SPDX-License-Identifier: Apache-2.0
//
// HipressSynchronize combines the gradients of an agreed list over all ranks.
#include "frameworks/tensorflow/operators/synchronize.h"

#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

#include "frameworks/tensorflow/operators/gpu_place.h"

namespace hipress::tensorflow_operators {
namespace {

absl::Status sameShapes(tf::shape_inference::InferenceContext* context) {
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(1 + i));
  return absl::OkStatus();
}

using GpuSynchronize = OnDevice<Synchronize, GpuPlace>;

}  // namespace

REGISTER_OP("HipressSynchronize")
    .Input("scale: float")  // the loss scale, by which the values are multiplied
    .Input("values: T")
    .Output("synchronized: T")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool, complex64, "
        "complex128}) >= 1")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .Attr("step_count: int")  // number of the list's tensors that the operators of one step take together
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameShapes);
REGISTER_KERNEL_BUILDER(Name("HipressSynchronize").Device(tf::DEVICE_CPU), Synchronize);
REGISTER_KERNEL_BUILDER(Name("HipressSynchronize").Device(tf::DEVICE_GPU).HostMemory("scale"),
                        GpuSynchronize);

}  // namespace hipress::tensorflow_operators
