// SPDX-License-Identifier: Apache-2.0
//
// HipressSynchronize combines the gradients of an agreed list over all ranks. The kernel waits for
// nothing: the engine's thread completes it, so gradients travel while TensorFlow's threads compute other
// gradients.
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "core/element/convert.h"
#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/tensor_lists.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {
namespace {

std::vector<float> floatsOf(const tf::Tensor& tensor, DType dtype) {
  std::vector<float> values(static_cast<size_t>(tensor.NumElements()));
  widen(tensor.data(), dtype, values);
  return values;
}

/// output = values + held
void join(const tf::Tensor& values, const std::vector<float>& held, DType dtype, tf::Tensor& output) {
  std::vector<float> sums = floatsOf(values, dtype);
  for (size_t i = 0; i < sums.size() && i < held.size(); ++i) sums[i] += held[i];
  narrow(sums, dtype, output.data());
}

class Synchronize final : public tf::AsyncOpKernel {
 public:
  explicit Synchronize(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("list_number", &list_));
    OP_REQUIRES_OK(construction, construction->GetAttr("indices", &indices_));
    OP_REQUIRES_OK(construction, construction->GetAttr("step_count", &stepCount_));
    OP_REQUIRES(construction, static_cast<int>(indices_.size()) == construction->num_inputs(),
                absl::InvalidArgumentError("every tensor needs its index in the list"));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    // Allocates all memory first, because no call may fail after the first operation has started.
    std::vector<tf::Tensor*> outputs(indices_.size());
    for (int i = 0; i < context->num_inputs(); ++i) {
      OP_REQUIRES_OK_ASYNC(context,
                           context->forward_input_or_allocate_output({i}, i, context->input(i).shape(),
                                                                     &outputs[static_cast<size_t>(i)]),
                           done);
    }
    // The last operation may end while this loop runs. After that neither context nor outputs
    // exist.
    const auto completion = std::make_shared<Completion>(context, std::move(done), context->num_inputs());
    std::vector<tf::Tensor> inputs;
    for (int i = 0; i < context->num_inputs(); ++i) inputs.push_back(context->input(i));
    const std::vector<int64_t> indices = indices_;
    const int64_t list = list_;
    const auto stepCount = static_cast<size_t>(stepCount_);
    const int64_t run = context->step_id();
    for (size_t i = 0; i < inputs.size(); ++i) {
      completion->guarded([&] {
        start(inputs[i], *outputs[i], list, static_cast<size_t>(indices[i]), stepCount, run,
              completion->onDone());
      });
    }
  }

 private:
  static void start(const tf::Tensor& input, tf::Tensor& output, int64_t number, size_t index,
                    size_t stepCount, int64_t run, OnDone onDone) {
    const auto list = tensorList(number);
    list->computed(stepCount);
    const TensorHandle handle = list->handle(index);
    list->handOver(index, stepCount, run);
    TensorView values = viewOf(input);
    ViewSubmission views;
    views.output = viewOf(output);
    views.owner = ownerOf(input, output);
    std::vector<float> held = list->takeHeldBack(index);
    if (!held.empty()) {
      join(input, held, *values.dtype, output);
      values = views.output;
      onDone = [list, index, held = std::move(held), output, inner = std::move(onDone)](
                   const Failure& failure, bool absent) mutable {
        const auto finite = [](float value) { return std::isfinite(value); };
        // A result that is not finite updates no variable: the held values wait for the next step.
        if (!failure && !std::ranges::all_of(floatsOf(output, *dtypeOf(output.dtype())), finite))
          list->holdBack(index, std::move(held));
        inner(failure, absent);
      };
    }
    views.input = &values;
    views.onDone = std::move(onDone);
    views.updates = list->updates(index);
    try {
      submitViews(handle, std::move(views));
    } catch (const Error& error) {
      // The other ranks submit their gradients. Without this rank's gradient the tensor would be one step
      // behind from here on.
      const auto engine = currentEngine();
      if (engine->worldSize() > 1)
        engine->fail({error.kind(), "rank " + std::to_string(engine->rank()) + ": " + error.what()});
      throw;
    }
  }

  int64_t list_ = 0;
  int64_t stepCount_ = 0;
  std::vector<int64_t> indices_;
};

absl::Status sameShapes(tf::shape_inference::InferenceContext* context) {
  for (int i = 0; i < context->num_inputs(); ++i) context->set_output(i, context->input(i));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("HipressSynchronize")
    .Input("values: T")
    .Output("synchronized: T")
    .Attr("T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool}) >= 1")
    .Attr("list_number: int")
    .Attr("indices: list(int)")
    .Attr("step_count: int")  // number of the list's tensors that the operators of one step take together
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameShapes);
REGISTER_KERNEL_BUILDER(Name("HipressSynchronize").Device(tf::DEVICE_CPU), Synchronize);

}  // namespace hipress::tensorflow_operators
