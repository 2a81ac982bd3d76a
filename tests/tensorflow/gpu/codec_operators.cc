// SPDX-License-Identifier: Apache-2.0
//
// The GPU kernels of HiPress' codec operators as operators of the processor, on a stream of the stand-in for
// NVIDIA's driver. Only the place differs: the stream comes from the test, and each operator waits for it,
// because TensorFlow frees memory of the processor at once.
#include <tensorflow/core/framework/op.h>

#include "frameworks/tensorflow/operators/any_codec.h"
#include "frameworks/tensorflow/operators/gpu_codec_kernels.h"

namespace hipress::tensorflow_operators {

void* streamOfTest = nullptr;
int (*synchronize)(void*) = nullptr;

class PlaceOfTest {
 public:
  explicit PlaceOfTest(tf::OpKernelContext*) : operators_(processOperators(0)) {}
  ~PlaceOfTest() { synchronize(streamOfTest); }
  PlaceOfTest(const PlaceOfTest&) = delete;
  PlaceOfTest& operator=(const PlaceOfTest&) = delete;
  DeviceOperators& operators() const { return *operators_; }
  void* stream() const { return streamOfTest; }

 private:
  const std::shared_ptr<DeviceOperators> operators_;
};

REGISTER_OP("HipressTestEncode")
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
REGISTER_OP("HipressTestDecode")
    .Input("message: uint8")
    .Input("count: int64")
    .Output("values: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(decodeShape);
REGISTER_OP("HipressTestDecodeAccumulate")
    .Input("message: uint8")
    .Input("values: float")
    .Output("sums: float")
    .Attr("codec: string")
    .Attr("options: string = ''")
    .SetShapeFn(accumulateShape);
REGISTER_KERNEL_BUILDER(Name("HipressTestEncode").Device(tf::DEVICE_CPU),
                        EncodeForAnyCodec<GpuEncodeKernel<PlaceOfTest>>);
REGISTER_KERNEL_BUILDER(Name("HipressTestDecode").Device(tf::DEVICE_CPU),
                        ForAnyCodec<GpuDecodeKernel<PlaceOfTest>>);
REGISTER_KERNEL_BUILDER(Name("HipressTestDecodeAccumulate").Device(tf::DEVICE_CPU),
                        ForAnyCodec<GpuDecodeAccumulateKernel<PlaceOfTest>>);

}  // namespace hipress::tensorflow_operators

extern "C" __attribute__((visibility("default"))) void hipress_test_use(void* stream, int (*wait)(void*)) {
  hipress::tensorflow_operators::streamOfTest = stream;
  hipress::tensorflow_operators::synchronize = wait;
}
