// SPDX-License-Identifier: Apache-2.0
//
// The kernels that synchronise, as operators of the processor whose tensors are on the stand-in for a GPU.
// Their inputs are still being computed when a kernel begins: the stream writes them later. Each kernel waits
// for the stream at its end, because TensorFlow frees memory of the processor at once. This library has lists
// of tensors of its own, so the operators that use lists are here, too.
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

#include "core/device/operators/process_operators.h"
#include "frameworks/tensorflow/operators/collectives.h"
#include "frameworks/tensorflow/operators/observe.h"
#include "frameworks/tensorflow/operators/operator_names.cc"
#include "frameworks/tensorflow/operators/synchronize.h"
#include "frameworks/tensorflow/operators/tensor_lists.cc"

namespace hipress::tensorflow_operators {

void* streamOfTest = nullptr;
int (*waitForStream)(void*) = nullptr;

constexpr int kLate = 0x7B;  // floats of these bytes are finite

template <typename Kernel>
class OnStandIn final : public Kernel {
 public:
  using Kernel::Kernel;

  void ComputeAsync(tf::OpKernelContext* context, tf::AsyncOpKernel::DoneCallback done) override {
    auto computed = std::make_shared<std::vector<std::vector<std::byte>>>();
    for (int i = context->num_inputs() - context->num_outputs(); i < context->num_inputs(); ++i) {
      const tf::Tensor& input = context->input(i);
      auto* const bytes = static_cast<std::byte*>(input.data());
      computed->emplace_back(bytes, bytes + input.TotalBytes());
      std::memset(bytes, kLate, input.TotalBytes());
      placeOf(context).copy(bytes, computed->back().data(), input.TotalBytes());
    }
    Kernel::ComputeAsync(context, [computed, done = std::move(done)] {
      waitForStream(streamOfTest);
      done();
    });
  }

 private:
  TensorPlace placeOf(tf::OpKernelContext*) const override { return {processOperators(0), streamOfTest}; }
};

absl::Status sameAsInputs(tf::shape_inference::InferenceContext* context) {
  const int first = context->num_inputs() - context->num_outputs();
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(first + i));
  return absl::OkStatus();
}

REGISTER_OP("HipressTestSynchronize")
    .Input("scale: float")
    .Input("values: T")
    .Output("synchronized: T")
    .Attr("T: list({float, double, half, bfloat16, int32})")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .Attr("step_count: int")
    .SetIsStateful()
    .SetShapeFn(sameAsInputs);
REGISTER_OP("HipressTestHostSynchronize")
    .Input("scale: float")
    .Input("values: T")
    .Output("synchronized: T")
    .Attr("T: list({float, double, half, bfloat16, int32})")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .Attr("step_count: int")
    .SetIsStateful()
    .SetShapeFn(sameAsInputs);
REGISTER_OP("HipressTestObserve")
    .Input("variables: N * resource")
    .Attr("N: int >= 1")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .SetIsStateful();
REGISTER_OP("HipressTestUpdated")
    .Input("variables: N * resource")
    .Attr("N: int >= 0")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .SetIsStateful();
REGISTER_OP("HipressTestAllreduce")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr("T: list({float, double, half, bfloat16, int32})")
    .Attr("reduction: string")
    .Attr("codec: string = 'none'")
    .Attr("topology: string = 'ps'")
    .Attr("partitions: int = 0")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(sameAsInputs);
REGISTER_OP("HipressTestReducescatter")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr("T: list({float, double, half, bfloat16, int32})")
    .Attr("reduction: string")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful();
REGISTER_OP("HipressTestBroadcast")
    .Input("names: string")
    .Input("tensors: T")
    .Output("broadcast: T")
    .Attr("T: list({float, double, half, bfloat16, int32})")
    .Attr("root_rank: int")
    .Attr("loops: int = 0")
    .Attr("among: list(int) = []")
    .SetIsStateful()
    .SetShapeFn(sameAsInputs);
REGISTER_KERNEL_BUILDER(Name("HipressTestSynchronize").Device(tf::DEVICE_CPU), OnStandIn<Synchronize>);
REGISTER_KERNEL_BUILDER(Name("HipressTestHostSynchronize").Device(tf::DEVICE_CPU), Synchronize);
REGISTER_KERNEL_BUILDER(Name("HipressTestObserve").Device(tf::DEVICE_CPU), Observe);
REGISTER_KERNEL_BUILDER(Name("HipressTestUpdated").Device(tf::DEVICE_CPU), Updated);
REGISTER_KERNEL_BUILDER(Name("HipressTestAllreduce").Device(tf::DEVICE_CPU), OnStandIn<Allreduce>);
REGISTER_KERNEL_BUILDER(Name("HipressTestReducescatter").Device(tf::DEVICE_CPU), OnStandIn<Reducescatter>);
REGISTER_KERNEL_BUILDER(Name("HipressTestBroadcast").Device(tf::DEVICE_CPU), OnStandIn<Broadcast>);

}  // namespace hipress::tensorflow_operators

extern "C" __attribute__((visibility("default"))) void hipress_test_use(void* stream, int (*wait)(void*)) {
  hipress::tensorflow_operators::streamOfTest = stream;
  hipress::tensorflow_operators::waitForStream = wait;
}
