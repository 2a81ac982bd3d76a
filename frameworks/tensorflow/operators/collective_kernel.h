// SPDX-License-Identifier: Apache-2.0
//
// The kernel of collectives whose results have sizes that are known before.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <cstring>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {

/// names, ..., tensors -> a result for each tensor. Ranks match tensors by name; all are on their way
/// together.
class CollectiveKernel : public tf::AsyncOpKernel {
 public:
  using tf::AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    try {
      start(context, done);
    } catch (const Error& error) {
      context->SetStatus(statusOf(error));
      done();
    }
  }

 protected:
  /// What of the specification comes as an input, too. Throws InvalidArgument.
  virtual void addInputs(tf::OpKernelContext* /*context*/, TensorSpec& /*spec*/) const {}
  /// Of one tensor's result; adds to the specification what belongs to its shape. Throws InvalidArgument.
  virtual tf::TensorShape resultShape(const tf::TensorShape& shape, TensorSpec& /*spec*/) const {
    return shape;
  }

  TensorSpec specOfAll_;

 private:
  void start(tf::OpKernelContext* context, DoneCallback& done) const {
    const int count = context->num_outputs();
    const int first = context->num_inputs() - count;
    const auto names = context->input(0).flat<tf::tstring>();
    if (names.size() != count) throw invalidArgument("every tensor needs a name");
    const auto engine = currentEngine();
    TensorSpec common = specOfAll_;
    common.transient = true;
    addInputs(context, common);
    std::vector<TensorSpec> specs;
    std::vector<tf::Tensor*> outputs(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const tf::Tensor& input = context->input(first + i);
      TensorSpec spec = common;
      spec.name = names(i);
      spec.dtype = dtypeOf(input.dtype()).value();  // the operator takes no others
      spec.count = static_cast<uint64_t>(input.NumElements());
      spec.shape = shapeText(input.shape());
      const tf::TensorShape shape = resultShape(input.shape(), spec);
      tf::Tensor** output = &outputs[static_cast<size_t>(i)];
      OP_REQUIRES_OK_ASYNC(context, context->forward_input_or_allocate_output({first + i}, i, shape, output),
                           done);
      // A broadcast leaves its root's output alone.
      const bool isRoot = spec.collective == Collective::kBroadcast && spec.root == engine->rank();
      if (isRoot && !(*output)->SharesBufferWith(input) && input.TotalBytes() > 0)
        std::memcpy((*output)->data(), input.data(), input.TotalBytes());
      specs.push_back(std::move(spec));
    }
    std::vector<tf::Tensor> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(context->input(first + i));
    const std::vector<TensorHandle> handles = engine->declare(std::move(specs));
    // From here on context and outputs may end at any time, when the last operation does.
    const auto completion = std::make_shared<Completion>(context, std::move(done), count);
    for (size_t i = 0; i < handles.size(); ++i) {
      completion->guarded([&] { submit(handles[i], inputs[i], *outputs[i], completion->onDone()); });
    }
  }

  static void submit(TensorHandle handle, const tf::Tensor& input, const tf::Tensor& output, OnDone onDone) {
    const TensorView values = viewOf(input);
    ViewSubmission views;
    views.input = &values;
    views.output = viewOf(output);
    views.owner = ownerOf(input, output);
    views.onDone = std::move(onDone);
    submitViews(handle, std::move(views));
  }
};

}  // namespace hipress::tensorflow_operators
