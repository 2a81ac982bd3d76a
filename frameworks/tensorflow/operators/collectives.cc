// SPDX-License-Identifier: Apache-2.0
//
// HipressAllreduce and HipressBroadcast: single tensors, which ranks match by name.
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/op_kernel.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {
namespace {

std::string shapeText(const tf::TensorShape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.dims(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape.dim_size(i));
  return text + "]";
}

/// names, ..., tensors -> tensors of the same shapes
class Collective : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    const int count = context->num_outputs();
    const int first = context->num_inputs() - count;
    const auto names = context->input(0).flat<tf::tstring>();
    OP_REQUIRES_ASYNC(context, names.size() == count, absl::InvalidArgumentError("every tensor needs a name"),
                      done);
    TensorSpec common = specOfAll_;
    addInputs(context, common);
    OP_REQUIRES_OK_ASYNC(context, context->status(), done);
    std::vector<TensorSpec> specs;
    std::vector<tf::Tensor> inputs;
    std::vector<tf::Tensor*> outputs(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const tf::Tensor& input = context->input(first + i);
      TensorSpec spec = common;
      spec.name = names(i);
      spec.dtype = dtypeOf(input.dtype()).value();  // the operator takes no others
      spec.count = static_cast<uint64_t>(input.NumElements());
      spec.shape = shapeText(input.shape());
      spec.transient = true;
      specs.push_back(std::move(spec));
      OP_REQUIRES_OK_ASYNC(context,
                           context->forward_input_or_allocate_output({first + i}, i, input.shape(),
                                                                     &outputs[static_cast<size_t>(i)]),
                           done);
    }
    for (int i = 0; i < count; ++i) inputs.push_back(context->input(first + i));
    const auto completion = std::make_shared<Completion>(context, std::move(done), count);
    size_t submitted = 0;
    try {
      const auto engine = currentEngine();
      // A broadcast leaves its root's output alone.
      if (common.collective == hipress::Collective::kBroadcast && common.root == engine->rank()) {
        for (size_t i = 0; i < inputs.size(); ++i) {
          if (!outputs[i]->SharesBufferWith(inputs[i]) && inputs[i].TotalBytes() > 0)
            std::memcpy(outputs[i]->data(), inputs[i].data(), inputs[i].TotalBytes());
        }
      }
      const std::vector<TensorHandle> handles = engine->declare(std::move(specs));
      for (; submitted < handles.size(); ++submitted)
        submit(handles[submitted], inputs[submitted], *outputs[submitted], completion);
    } catch (const Error& error) {
      for (; submitted < inputs.size(); ++submitted) completion->ended(statusOf(error));
    } catch (const std::exception& error) {  // TensorFlow does not catch any
      for (; submitted < inputs.size(); ++submitted) completion->ended(absl::InternalError(error.what()));
    }
  }

 protected:
  /// What of the specification comes as an input, too.
  virtual void addInputs(tf::OpKernelContext* /*context*/, TensorSpec& /*spec*/) const {}

  TensorSpec specOfAll_;

 private:
  static void submit(TensorHandle handle, const tf::Tensor& input, const tf::Tensor& output,
                     const std::shared_ptr<Completion>& completion) {
    const TensorView values = viewOf(input);
    ViewSubmission views;
    views.input = &values;
    views.output = viewOf(output);
    views.owner = ownerOf(input, output);
    views.onDone = completion->onDone();
    submitViews(handle, std::move(views));
  }
};

class Allreduce final : public Collective {
 public:
  explicit Allreduce(tf::OpKernelConstruction* construction) : Collective(construction) {
    specOfAll_.collective = hipress::Collective::kAllreduce;
    std::string reduction;
    OP_REQUIRES_OK(construction, construction->GetAttr("reduction", &reduction));
    OP_REQUIRES_OK(construction, construction->GetAttr("codec", &specOfAll_.codec));
    OP_REQUIRES_OK(construction, construction->GetAttr("topology", &specOfAll_.topology));
    OP_REQUIRES_OK(construction, construction->GetAttr("partitions", &specOfAll_.partitions));
    specOfAll_.reduction = reduction == "sum" ? Reduction::kSum : Reduction::kAverage;
  }

 private:
  void addInputs(tf::OpKernelContext* context, TensorSpec& spec) const override {
    const auto factors = context->input(1).flat<double>();
    OP_REQUIRES(context, factors.size() == 2, absl::InvalidArgumentError("two factors are needed"));
    spec.prescale = factors(0);
    spec.postscale = factors(1);
  }
};

class Broadcast final : public Collective {
 public:
  explicit Broadcast(tf::OpKernelConstruction* construction) : Collective(construction) {
    specOfAll_.collective = hipress::Collective::kBroadcast;
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &specOfAll_.root));
  }
};

absl::Status shapesOfTensors(tf::shape_inference::InferenceContext* context) {
  const int first = context->num_inputs() - context->num_outputs();
  for (int i = 0; i < context->num_outputs(); ++i) context->set_output(i, context->input(first + i));
  return absl::OkStatus();
}

}  // namespace

REGISTER_OP("HipressAllreduce")
    .Input("names: string")
    .Input("factors: double")  // before and after; an attribute would have 32 bits only
    .Input("tensors: T")
    .Output("combined: T")
    .Attr("T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool}) >= 1")
    .Attr("reduction: {'average', 'sum'}")
    .Attr("codec: string = 'none'")
    .Attr("topology: string = 'ps'")
    .Attr("partitions: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(shapesOfTensors);
REGISTER_OP("HipressBroadcast")
    .Input("names: string")
    .Input("tensors: T")
    .Output("broadcast: T")
    .Attr("T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool}) >= 1")
    .Attr("root_rank: int")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(shapesOfTensors);
REGISTER_KERNEL_BUILDER(Name("HipressAllreduce").Device(tf::DEVICE_CPU), Allreduce);
REGISTER_KERNEL_BUILDER(Name("HipressBroadcast").Device(tf::DEVICE_CPU), Broadcast);

}  // namespace hipress::tensorflow_operators
