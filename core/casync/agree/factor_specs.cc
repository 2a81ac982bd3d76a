// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/factor_specs.h"

namespace hipress {
namespace {

TensorSpec factorSpec(const Tensor& tensor, const std::string& name, size_t length) {
  const TensorSpec& whole = tensor.spec();
  AllreduceOptions how;
  how.reduction = Reduction::kSum;
  how.topology = whole.allreduce()->topology;
  how.partitions = whole.allreduce()->partitions;
  TensorSpec spec;
  spec.name = whole.name + name;
  spec.count = length * tensor.factoring()->rank;
  spec.shape = "[" + std::to_string(tensor.factoring()->rank) + ", " + std::to_string(length) + "]";
  spec.priority = whole.priority;
  spec.transient = whole.transient;
  spec.options = std::move(how);
  return spec;
}

}  // namespace

std::pair<TensorSpec, TensorSpec> factorSpecs(const Tensor& tensor) {
  const MatrixShape shape = tensor.factoring()->shape;
  return {factorSpec(tensor, kLeftFactor, shape.rows), factorSpec(tensor, kRightFactor, shape.columns)};
}

}  // namespace hipress
