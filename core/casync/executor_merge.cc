// SPDX-License-Identifier: Apache-2.0
//
// The merge: contributions of several ranks become one sum, in the order that the graph gives.
#include <string>
#include <vector>

#include "core/casync/executor.h"
#include "core/casync/operation_values.h"
#include "core/element/convert.h"
#include "core/element/reduce.h"

namespace hipress {
namespace {

void scaleBy(float factor, std::span<float> values) {
  if (factor == 1.0f) return;
  for (float& value : values) value *= factor;
}

}  // namespace

void Executor::merge(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const Tensor& tensor = *operation.tensor;
  const size_t count = partition.range.count;
  const bool toOutput = task.mergeAs == MergeAs::kOutput;
  SumState& sum = operation.sums[task.sum];
  if (partition.raw) {
    sum.absent = !mergeRaw(operation, task);
  } else if (toOutput && tensor.spec.dtype == DType::kFloat32) {
    const std::span<float> output(reinterpret_cast<float*>(outputSlice(operation, partition).data()), count);
    sum.absent = !mergeEncoded(operation, task, output);
    if (!sum.absent) scaleBy(static_cast<float>(tensor.aggregateFactor), output);
  } else {
    sum.values = pool_.take(count * sizeof(float));
    sum.absent = !mergeEncoded(operation, task, sum.values.floats(count));
    if (toOutput && !sum.absent) {
      scaleBy(static_cast<float>(tensor.aggregateFactor), sum.values.floats(count));
      narrow(sum.values.floats(count), tensor.spec.dtype, outputSlice(operation, partition).data());
    }
    if (toOutput || sum.absent) sum.values.release();
  }
  if (toOutput && sum.absent) operation.absent.store(true, std::memory_order_relaxed);
}

/// In the output, in the tensor's own type; false if nobody had values.
bool Executor::mergeRaw(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const Tensor& tensor = *operation.tensor;
  thread_local std::vector<const void*> values;  // its memory serves every merge
  values.clear();
  const auto payloadOf = [&](MessageIndex message) { return operation.messages[message].payload; };
  collectRaw(operation, task, payloadOf, values);
  if (values.empty()) return false;
  combineInOrder(tensor.combination, tensor.spec.dtype, values, partition.range.count,
                 rawFactor(tensor, task), outputSlice(operation, partition).data());
  return true;
}

/// In float32, every input with its factor; false if nobody had values.
bool Executor::mergeEncoded(Operation& operation, const Task& task, std::span<float> sum) {
  bool first = true;
  for (const Operand& operand : task.from) {
    if (isAbsent(operation, operand)) continue;
    try {
      add(operation, task, operand, sum, first);
    } catch (const Error& error) {
      const int sender = operand.kind == Operand::Kind::kMessage ? senderOf(operation, operand.index) : -1;
      throw inContext(error, operation, task, sender);
    }
    first = false;
  }
  return !first;
}

void Executor::add(Operation& operation, const Task& task, const Operand& operand, std::span<float> sum,
                   bool first) {
  const auto& partition = partitionOf(operation, task);
  if (operand.kind == Operand::Kind::kInput) {
    return addElements(operation, inputSlice(operation, partition), sum, first);
  }
  if (operand.kind == Operand::Kind::kSum) {
    auto& other = operation.sums[operand.index].values;
    const auto values = other.floats(sum.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = first ? values[i] : sum[i] + values[i];
    return other.release();
  }
  const MessageState& message = operation.messages[operand.index];
  if ((message.header.flags & kFlagRaw) != 0) return addElements(operation, message.payload, sum, first);
  verifyChecksum(message.header, message.payload);
  operation.tensor->codec->decode(message.payload, sum, first ? DecodeMode::kAssign : DecodeMode::kAccumulate,
                                  &parallel_);
}

void Executor::addElements(const Operation& operation, std::span<const std::byte> elements,
                           std::span<float> sum, bool first) {
  BufferPool::Buffer scratch;
  const auto values = asFloats(elements, operation.tensor->spec.dtype, sum.size(), pool_, scratch);
  const auto factor = static_cast<float>(operation.tensor->inputFactor);
  if (first) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = factor * values[i];
  } else {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * values[i];
  }
}

}  // namespace hipress
