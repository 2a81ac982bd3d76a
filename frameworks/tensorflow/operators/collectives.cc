// SPDX-License-Identifier: Apache-2.0
//
// HipressAllreduce, HipressBroadcast, HipressReducescatter.
#include <tensorflow/core/framework/op.h>
#include <tensorflow/core/framework/shape_inference.h>

#include <string>
#include <utility>
#include <variant>

#include "core/casync/graph/collectives.h"
#include "frameworks/tensorflow/operators/collective_kernel.h"

namespace hipress::tensorflow_operators {
namespace {

Reduction reductionNamed(const std::string& name) {
  for (const Reduction known : {Reduction::kSum, Reduction::kMin, Reduction::kMax, Reduction::kProduct}) {
    if (name == reductionName(known)) return known;
  }
  return Reduction::kAverage;  // the operator takes no other names
}

/// The part of operators that combine values: writes reduction and factors to the collective's `Options`.
template <typename Options>
class ReducingKernel : public CollectiveKernel {
 public:
  explicit ReducingKernel(tf::OpKernelConstruction* construction) : CollectiveKernel(construction) {
    std::string reduction;
    OP_REQUIRES_OK(construction, construction->GetAttr("reduction", &reduction));
    options_.reduction = reductionNamed(reduction);
  }

 protected:
  Options options_;

 private:
  void addOptions(tf::OpKernelContext* context, TensorSpec& spec) const override {
    const auto factors = context->input(1).flat<double>();
    if (factors.size() != 2) throw invalidArgument("two factors are needed");
    Options options = options_;
    options.prescale = factors(0);
    options.postscale = factors(1);
    spec.options = std::move(options);
  }
};

class Allreduce final : public ReducingKernel<AllreduceOptions> {
 public:
  explicit Allreduce(tf::OpKernelConstruction* construction) : ReducingKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("codec", &options_.codec));
    OP_REQUIRES_OK(construction, construction->GetAttr("topology", &options_.topology));
    OP_REQUIRES_OK(construction, construction->GetAttr("partitions", &options_.partitions));
  }
};

class Reducescatter final : public ReducingKernel<ReducescatterOptions> {
 public:
  using ReducingKernel::ReducingKernel;

 private:
  tf::TensorShape resultShape(const tf::TensorShape& shape, TensorSpec& spec) const override {
    if (shape.dims() == 0)
      throw invalidArgument("tensor '" + spec.name + "' is a scalar; a reducescatter divides rows");
    const auto all = static_cast<uint64_t>(shape.dim_size(0));
    std::get<ReducescatterOptions>(spec.options).rows = all;
    const auto engine = currentEngine();
    const auto rows = divideRows(all, 1, engine->worldSize())[static_cast<size_t>(engine->rank())];
    tf::TensorShape result = shape;
    result.set_dim(0, static_cast<int64_t>(rows));
    return result;
  }
};

class Broadcast final : public CollectiveKernel {
 public:
  explicit Broadcast(tf::OpKernelConstruction* construction) : CollectiveKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("root_rank", &options_.root));
  }

 private:
  void addOptions(tf::OpKernelContext* /*context*/, TensorSpec& spec) const override {
    spec.options = options_;
  }

  BroadcastOptions options_;
};

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

}  // namespace

// The factors before and after the sum. An attribute would have 32 bits only.
REGISTER_OP("HipressAllreduce")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr("T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool}) >= 1")
    .Attr("reduction: {'average', 'sum', 'min', 'max', 'product'}")
    .Attr("codec: string = 'none'")
    .Attr("topology: string = 'ps'")
    .Attr("partitions: int = 0")
    .Attr("loops: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameAsTensors);
REGISTER_OP("HipressReducescatter")
    .Input("names: string")
    .Input("factors: double")
    .Input("tensors: T")
    .Output("combined: T")
    .Attr("T: list({float, double, half, bfloat16, uint8, int8, int16, int32, int64, bool}) >= 1")
    .Attr("reduction: {'average', 'sum', 'min', 'max', 'product'}")
    .Attr("loops: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(someOfTheRows);
REGISTER_OP("HipressBroadcast")
    .Input("names: string")
    .Input("tensors: T")
    .Output("broadcast: T")
    .Attr(
        "T: list({float, double, half, bfloat16, uint8, uint16, uint32, uint64, int8, int16, int32, int64, "
        "bool}) >= 1")
    .Attr("root_rank: int")
    .Attr("loops: int = 0")
    .SetIsStateful()
    .SetIsDistributedCommunication()
    .SetShapeFn(sameAsTensors);
REGISTER_KERNEL_BUILDER(Name("HipressAllreduce").Device(tf::DEVICE_CPU), Allreduce);
REGISTER_KERNEL_BUILDER(Name("HipressReducescatter").Device(tf::DEVICE_CPU), Reducescatter);
REGISTER_KERNEL_BUILDER(Name("HipressBroadcast").Device(tf::DEVICE_CPU), Broadcast);

}  // namespace hipress::tensorflow_operators
