// SPDX-License-Identifier: Apache-2.0
//
// HipressGpuEncode, HipressGpuDecode and HipressGpuDecodeAccumulate: the operators of codecs.cc for tensors
// on GPUs. They have names of their own, because a message on a GPU has an end that one of the processor
// lacks, and TensorFlow moves operators between devices when it sees fit.
#include "frameworks/tensorflow/operators/gpu_codec_kernels.h"

#include <tensorflow/core/framework/op.h>

#include "frameworks/tensorflow/operators/any_codec.h"
#include "frameworks/tensorflow/operators/gpu_place.h"

namespace hipress::tensorflow_operators {

REGISTER_OP("HipressGpuEncode")
    .Input("gradient: float")
    .Input("states: N * float")
    .Input("step: int64")
    .Output("message: uint8")
    .Output("states_out: N * float")
    .Attr("N: int >= 0")
    .Attr("codec: string")
    .Attr("state_names: list(string)")
    .Attr("options: string = ''")
    .Attr("seed: int = 0")
    .Attr("tensor: int = 0")
    .Attr("scale: float = 1.0")
    .SetShapeFn(encodeShapes);
REGISTER_OP("HipressGpuDecode")
    .Input("message: uint8")
    .Input("count: int64")
    .Output("values: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(decodeShape);
REGISTER_OP("HipressGpuDecodeAccumulate")
    .Input("message: uint8")
    .Input("values: float")
    .Output("sums: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(accumulateShape);
REGISTER_KERNEL_BUILDER(Name("HipressGpuEncode").Device(tf::DEVICE_GPU).HostMemory("step"),
                        EncodeForAnyCodec<GpuEncodeKernel<GpuPlace>>);
REGISTER_KERNEL_BUILDER(Name("HipressGpuDecode").Device(tf::DEVICE_GPU).HostMemory("count"),
                        ForAnyCodec<GpuDecodeKernel<GpuPlace>>);
REGISTER_KERNEL_BUILDER(Name("HipressGpuDecodeAccumulate").Device(tf::DEVICE_GPU),
                        ForAnyCodec<GpuDecodeAccumulateKernel<GpuPlace>>);

}  // namespace hipress::tensorflow_operators
