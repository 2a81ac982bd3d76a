// SPDX-License-Identifier: Apache-2.0
//
// The kernel of HipressSynchronize. It waits for nothing: a thread of the engine completes it, so gradients
// travel while TensorFlow computes other gradients. On a device it begins after the work on the operator's
// stream so far. It ends when the device has written the result, so that later work needs no event.
#pragma once

#include <tensorflow/core/framework/op_kernel.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/tensorflow/operators/completion.h"
#include "frameworks/tensorflow/operators/held_values.h"
#include "frameworks/tensorflow/operators/tensor_lists.h"
#include "frameworks/tensorflow/operators/tensor_place.h"
#include "frameworks/tensorflow/operators/tensor_view.h"

namespace hipress::tensorflow_operators {

class Synchronize : public tf::AsyncOpKernel {
 public:
  explicit Synchronize(tf::OpKernelConstruction* construction) : tf::AsyncOpKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("list_number", &list_));
    OP_REQUIRES_OK(construction, construction->GetAttr("indices", &indices_));
    OP_REQUIRES_OK(construction, construction->GetAttr("step_count", &stepCount_));
    OP_REQUIRES(construction, static_cast<int>(indices_.size()) == construction->num_outputs(),
                absl::InvalidArgumentError("every tensor needs its index in the list"));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    // Allocates all memory first, because no call may fail after the first operation has started.
    std::vector<tf::Tensor*> outputs(indices_.size());
    for (int i = 0; i < context->num_outputs(); ++i) {
      OP_REQUIRES_OK_ASYNC(context,
                           context->forward_input_or_allocate_output(
                               {1 + i}, i, context->input(1 + i).shape(), &outputs[static_cast<size_t>(i)]),
                           done);
    }
    // The last operation may end while this loop runs. After that neither context, outputs nor this kernel
    // exist.
    const auto completion = std::make_shared<Completion>(context, std::move(done), context->num_outputs());
    std::vector<tf::Tensor> inputs;
    for (int i = 0; i < context->num_outputs(); ++i) inputs.push_back(context->input(1 + i));
    Step step;
    step.list = list_;
    step.tensors = static_cast<size_t>(stepCount_);
    step.run = context->step_id();
    step.scale = context->input(0).scalar<float>()();
    const std::vector<int64_t> indices = indices_;
    for (size_t i = 0; i < inputs.size(); ++i) {
      completion->guarded([&] {
        start(context, step, static_cast<size_t>(indices[i]), inputs[i], *outputs[i], completion->onDone());
      });
    }
  }

 protected:
  /// Throws Unsupported.
  virtual TensorPlace placeOf(tf::OpKernelContext* /*context*/) const { return {}; }

 private:
  struct Step {
    int64_t list = 0;
    size_t tensors = 0;  // of all operators together
    int64_t run = 0;
    float scale = 1.0f;
  };

  void start(tf::OpKernelContext* context, const Step& step, size_t index, const tf::Tensor& input,
             tf::Tensor& output, OnDone onDone) const {
    const auto list = listInGraph(step.list);
    list->computed(step.tensors);
    const TensorHandle handle = list->handle(index);
    list->handOver(index, step.tensors, step.run);
    const auto submitted = [&] {
      list->setScale(step.scale);
      const TensorPlace place = placeOf(context);
      TensorView values = viewOf(input, place.name());
      ViewSubmission views;
      views.output = viewOf(output, place.name());
      views.stream = place.stream;
      views.owner = ownerOf(input, output);
      std::vector<float> held = list->takeHeldBack(index);
      if (!held.empty()) {
        held.resize(values.count);
        tf::Tensor kept = join(context, place, input, held, output);
        values = views.output;
        onDone =
            checkedResult(list, index, std::move(held), place, output, std::move(kept), std::move(onDone));
      }
      views.input = &values;
      views.onDone = std::move(onDone);
      views.updates = list->updates(index);
      submitViews(handle, std::move(views));
      list->submitted(step.tensors);
    };
    hipress::guarded(submitted, [](const Error& error) {
      // The other ranks submit their gradients. Without this rank's gradient the tensor would be one step
      // behind from here on.
      const auto engine = currentEngine();
      if (engine->worldSize() > 1)
        engine->fail({error.kind(), "rank " + std::to_string(engine->rank()) + ": " + error.what()});
      throw error;
    });
  }

  int64_t list_ = 0;
  int64_t stepCount_ = 0;
  std::vector<int64_t> indices_;
};

}  // namespace hipress::tensorflow_operators
