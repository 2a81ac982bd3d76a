// SPDX-License-Identifier: Apache-2.0
//
// HipressEncode, HipressDecode and HipressDecodeAccumulate, for every codec of the process, loaded ones
// included. An attribute names the codec.
#include <tensorflow/core/framework/op.h>

#include "frameworks/tensorflow/operators/any_codec.h"
#include "frameworks/tensorflow/operators/codec_kernels.h"

namespace hipress::tensorflow_operators {

REGISTER_OP("HipressEncode")
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
REGISTER_OP("HipressDecode")
    .Input("payload: uint8")
    .Input("count: int64")
    .Output("values: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(decodeShape);
REGISTER_OP("HipressDecodeAccumulate")
    .Input("payload: uint8")
    .Input("values: float")
    .Output("sums: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(accumulateShape);
REGISTER_KERNEL_BUILDER(Name("HipressEncode").Device(tf::DEVICE_CPU), EncodeForAnyCodec<EncodeKernel>);
REGISTER_KERNEL_BUILDER(Name("HipressDecode").Device(tf::DEVICE_CPU), ForAnyCodec<DecodeKernel>);
REGISTER_KERNEL_BUILDER(Name("HipressDecodeAccumulate").Device(tf::DEVICE_CPU),
                        ForAnyCodec<DecodeAccumulateKernel>);

}  // namespace hipress::tensorflow_operators
