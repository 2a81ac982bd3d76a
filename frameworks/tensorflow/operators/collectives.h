// SPDX-License-Identifier: Apache-2.0
//
// The kernels of HipressAllreduce, HipressBroadcast, HipressReducescatter.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "core/casync/graph/collectives.h"
#include "frameworks/tensorflow/operators/collective_kernel.h"

namespace hipress::tensorflow_operators {

inline Reduction reductionNamed(const std::string& name) {
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

class Allreduce : public ReducingKernel<AllreduceOptions> {
 public:
  explicit Allreduce(tf::OpKernelConstruction* construction) : ReducingKernel(construction) {
    OP_REQUIRES_OK(construction, construction->GetAttr("codec", &options_.codec));
    OP_REQUIRES_OK(construction, construction->GetAttr("topology", &options_.topology));
    OP_REQUIRES_OK(construction, construction->GetAttr("partitions", &options_.partitions));
  }
};

class Reducescatter : public ReducingKernel<ReducescatterOptions> {
 public:
  using ReducingKernel::ReducingKernel;

 private:
  tf::TensorShape resultShape(const tf::TensorShape& shape, TensorSpec& spec) const override {
    if (shape.dims() == 0)
      throw invalidArgument("tensor '" + spec.name + "' is a scalar; a reducescatter divides rows");
    const auto all = static_cast<uint64_t>(shape.dim_size(0));
    std::get<ReducescatterOptions>(spec.options).rows = all;
    const auto engine = currentEngine();
    checkProcessSet(among(), engine->rank(), engine->worldSize());
    const auto position = static_cast<size_t>(positionOf(among(), engine->rank()));
    const auto rows = divideRows(all, 1, sizeOf(among(), engine->worldSize()))[position];
    tf::TensorShape result = shape;
    result.set_dim(0, static_cast<int64_t>(rows));
    return result;
  }
};

class Broadcast : public CollectiveKernel {
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

}  // namespace hipress::tensorflow_operators
