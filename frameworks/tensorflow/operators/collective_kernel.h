// SPDX-License-Identifier: Apache-2.0
//
// The kernel of collectives whose result sizes are known at the start.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/tensor_place.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {

/// names, ..., tensors -> a result for each tensor. Ranks match tensors by name. All operations of a kernel
/// are in flight together. On a device they begin after the work on the operator's stream so far, and the
/// kernel ends when the device has written all results.
class CollectiveKernel : public tf::AsyncOpKernel {
 public:
  explicit CollectiveKernel(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("loops", &loops_));
    OP_REQUIRES_OK(construction, construction->GetAttr("among", &among_));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    if (!guarded(context, [&] { start(context, done); })) done();
  }

 protected:
  /// The process set; empty: all ranks.
  const ProcessSet& among() const { return among_; }

  /// Sets the options of the collective. Throws InvalidArgument.
  virtual void addOptions(tf::OpKernelContext* context, TensorSpec& spec) const = 0;
  /// The shape of one tensor's result. Adds options that depend on the tensor's shape. Throws
  /// InvalidArgument.
  virtual tf::TensorShape resultShape(const tf::TensorShape& shape, TensorSpec& /*spec*/) const {
    return shape;
  }
  /// Throws Unsupported.
  virtual TensorPlace placeOf(tf::OpKernelContext* /*context*/) const { return {}; }

 private:
  int64_t loops_ = 0;
  ProcessSet among_;

  void start(tf::OpKernelContext* context, DoneCallback& done) const {
    const int count = context->num_outputs();
    const int first = context->num_inputs() - count;
    const std::vector<std::string> names = namesOf(context, loops_);
    if (names.size() != static_cast<size_t>(count)) throw invalidArgument("every tensor needs a name");
    const auto engine = currentEngine();
    const TensorPlace place = placeOf(context);
    TensorSpec common;
    common.transient = true;
    common.among = among_;
    common.device = place.device();
    addOptions(context, common);
    std::vector<TensorSpec> specs;
    std::vector<tf::Tensor*> outputs(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const tf::Tensor& input = context->input(first + i);
      TensorSpec spec = common;
      spec.name = names[static_cast<size_t>(i)];
      spec.dtype = dtypeOf(input.dtype()).value();  // the operator takes no other types
      spec.count = countOf(input);
      spec.shape = shapeText(input.shape()) + elementText(input.dtype());
      const tf::TensorShape shape = resultShape(input.shape(), spec);
      tf::Tensor** output = &outputs[static_cast<size_t>(i)];
      OP_REQUIRES_OK_ASYNC(context, context->forward_input_or_allocate_output({first + i}, i, shape, output),
                           done);
      // A broadcast does not write the root's output.
      const auto* broadcast = std::get_if<BroadcastOptions>(&spec.options);
      const bool isRoot = broadcast != nullptr && broadcast->root == engine->rank();
      if (isRoot && !(*output)->SharesBufferWith(input))
        place.copy((*output)->data(), input.data(), input.TotalBytes());
      specs.push_back(std::move(spec));
    }
    std::vector<tf::Tensor> inputs;
    for (int i = 0; i < count; ++i) inputs.push_back(context->input(first + i));
    // From here on context and outputs may end at any time: when the last operation ends.
    const auto completion =
        std::make_shared<Completion>(context, std::move(done), count, NamesInFlight::take(names));
    // One by one: a rank that differs in one tensor still takes part in the others.
    for (size_t i = 0; i < specs.size(); ++i) {
      completion->guarded([&] {
        const TensorHandle handle = engine->announce(std::move(specs[i]));
        submit(handle, place, inputs[i], *outputs[i], completion->onDone());
      });
    }
  }

  static void submit(TensorHandle handle, const TensorPlace& place, const tf::Tensor& input,
                     const tf::Tensor& output, OnDone onDone) {
    const TensorView values = viewOf(input, place.name());
    ViewSubmission views;
    views.input = &values;
    views.output = viewOf(output, place.name());
    views.stream = place.stream;
    views.owner = ownerOf(input, output);
    views.onDone = std::move(onDone);
    submitViews(handle, std::move(views));
  }
};

}  // namespace hipress::tensorflow_operators
