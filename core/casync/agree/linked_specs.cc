// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/linked_specs.h"

#include <string>

#include "core/codec/summed_encoding.h"

namespace hipress {
namespace {

TensorSpec linkedSpec(const Tensor& tensor, const std::string& name, size_t count) {
  const TensorSpec& whole = tensor.spec();
  AllreduceOptions how;
  how.reduction = Reduction::kSum;
  how.topology = whole.allreduce()->topology;
  how.partitions = whole.allreduce()->partitions;
  TensorSpec spec;
  spec.name = whole.name + name;
  if (!whole.lastingName.empty()) spec.lastingName = whole.lastingName + name;
  spec.count = count;
  spec.shape = "[" + std::to_string(count) + "]";
  spec.priority = whole.priority;
  spec.transient = whole.transient;
  spec.among = whole.among;
  spec.options = std::move(how);
  return spec;
}

Reduction reductionOf(StatisticsReduction reduction) {
  if (reduction == StatisticsReduction::kSum) return Reduction::kSum;
  return reduction == StatisticsReduction::kMax ? Reduction::kMax : Reduction::kMin;
}

}  // namespace

std::pair<TensorSpec, TensorSpec> linkedSpecs(const Tensor& tensor) {
  if (tensor.factoring()) {
    const MatrixShape shape = tensor.factoring()->shape;
    const size_t rank = tensor.factoring()->rank;
    // Each rank with values counts itself in the element after the right factor.
    return {linkedSpec(tensor, " (left factor)", rank * shape.rows),
            linkedSpec(tensor, " (right factor)", rank * shape.columns + 1)};
  }
  const SummedEncoding& codec = *tensor.codec()->summed();
  const auto count = static_cast<size_t>(tensor.spec().count);
  TensorSpec statistics = linkedSpec(tensor, " (statistics)", codec.statisticsBytes(count) / sizeof(float));
  std::get<AllreduceOptions>(statistics.options).reduction = reductionOf(codec.reduction());
  TensorSpec levels = linkedSpec(tensor, " (levels)", count + 1);
  levels.dtype = DType::kInt8;
  // No rank counts more than itself in the last element.
  std::get<AllreduceOptions>(levels.options).greatest = codec.mostLevel();
  return {std::move(statistics), std::move(levels)};
}

}  // namespace hipress
