// SPDX-License-Identifier: Apache-2.0
//
// HipressAllreduce, HipressBroadcast, HipressReducescatter.
#include "frameworks/tensorflow/operators/collectives.h"

#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

#include "frameworks/tensorflow/operators/gpu_place.h"
#include "frameworks/tensorflow/operators/tensor_place.h"

namespace hipress::tensorflow_operators {
namespace {

absl::Status sameAsTensors(tf::shape_inference::InferenceContext* context) {
  const int first = context->num_inputs() - context->num_outputs();
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(first + i));
  return absl::OkStatus();
}

/// The shapes of the tensors, with an unknown first dimension.
absl::Status someOfTheRows(tf::shape_inference::InferenceContext* context) {
  const int first = context->num_inputs() - context->num_outputs();
  for (int i = 0; i < context->num_outputs(); ++i) {
    tf::shape_inference::ShapeHandle shape;
    TF_RETURN_IF_ERROR(context->WithRankAtLeast(context->input(first + i), 1, &shape));
    TF_RETURN_IF_ERROR(context->ReplaceDim(shape, 0, context->UnknownDim(), &shape));
    context->set_output(i, shape);
  }
  return absl::OkStatus();
}

using GpuAllreduce = OnDevice<Allreduce, GpuPlace>;
using GpuReducescatter = OnDevice<Reducescatter, GpuPlace>;
using GpuBroadcast = OnDevice<Broadcast, GpuPlace>;

}  // namespace

// The factors before and after the sum. An attribute would have 32 bits only.
REGISTER_OP("HipressAllreduce")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool, complex64, "
        "complex128}) >= 1")
    .Attr("reduction: {'average', 'sum', 'min', 'max', 'product'}")
    .Attr("codec: string = 'none'")
    .Attr("topology: string = 'ps'")
    .Attr("partitions: int = 0")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameAsTensors);
REGISTER_OP("HipressReducescatter")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool, complex64, "
        "complex128}) >= 1")
    .Attr("reduction: {'average', 'sum', 'min', 'max', 'product'}")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(someOfTheRows);
REGISTER_OP("HipressBroadcast")
    .Input("names: string")
    .Input("tensors: T")
    .Output("broadcast: T")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
        "bool, complex64, complex128}) >= 1")
    .Attr("root_rank: int")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameAsTensors);
REGISTER_KERNEL_BUILDER(Name("HipressAllreduce").Device(tf::DEVICE_CPU), Allreduce);
REGISTER_KERNEL_BUILDER(Name("HipressReducescatter").Device(tf::DEVICE_CPU), Reducescatter);
REGISTER_KERNEL_BUILDER(Name("HipressBroadcast").Device(tf::DEVICE_CPU), Broadcast);
REGISTER_KERNEL_BUILDER(
    Name("HipressAllreduce").Device(tf::DEVICE_GPU).HostMemory("names").HostMemory("factors"), GpuAllreduce);
REGISTER_KERNEL_BUILDER(
    Name("HipressReducescatter").Device(tf::DEVICE_GPU).HostMemory("names").HostMemory("factors"),
    GpuReducescatter);
REGISTER_KERNEL_BUILDER(Name("HipressBroadcast").Device(tf::DEVICE_GPU).HostMemory("names"), GpuBroadcast);

}  // namespace hipress::tensorflow_operators
