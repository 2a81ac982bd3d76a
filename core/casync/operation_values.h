// SPDX-License-Identifier: Apache-2.0
//
// Where the values of an operation's partitions are, for the primitives that compute on them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/casync/operation.h"
#include "core/element/convert.h"

namespace hipress {

inline const TensorPartition& partitionOf(const Operation& operation, const Task& task) {
  return operation.tensor->partitions[task.partition];
}

inline std::span<const std::byte> inputSlice(const Operation& operation, const TensorPartition& partition) {
  const size_t size = elementSize(operation.tensor->spec.dtype);
  return {operation.input + partition.range.first * size, partition.range.count * size};
}

inline std::span<std::byte> outputSlice(const Operation& operation, const TensorPartition& partition) {
  const size_t size = elementSize(operation.tensor->spec.dtype);
  return {operation.output + partition.output.first * size, partition.output.count * size};
}

/// Elements of a message: a block that arrives may have another size than the one that leaves.
inline size_t receivedCount(const Operation& operation, const TensorPartition& partition) {
  const bool exchanges = operation.tensor->spec.collective == Collective::kAllgather ||
                         operation.tensor->spec.collective == Collective::kAlltoall;
  return exchanges ? partition.output.count : partition.range.count;
}

/// Whether a message carries the elements as they are.
inline bool isRaw(const Operation& operation, const TensorPartition& partition, MessageIndex message) {
  return partition.raw || operation.tensor->graph.messages()[message].plain;
}

inline WireHeader headerFor(const Operation& operation, const TensorPartition& partition, bool raw) {
  WireHeader header;
  header.codec = operation.tensor->codec->id();
  header.dtype = operation.tensor->spec.dtype;
  header.elementCount = partition.range.count;
  if (raw) header.flags = kFlagRaw;
  return header;
}

/// Ranks that rounded alike would err alike, and a sum rounded by the numbers of its parts would be off on
/// average: each rank draws numbers of its own for each purpose.
inline uint64_t seedOf(uint64_t seed, int rank, EncodeAs encodeAs) {
  const auto purposes = uint64_t{4};
  return seed + ((static_cast<uint64_t>(rank) * purposes + static_cast<uint64_t>(encodeAs)) << 32);
}

/// Of an encode.
inline EncodeContext contextOf(const Operation& operation, const Task& task, uint64_t seed, int rank) {
  const Tensor& tensor = *operation.tensor;
  EncodeContext context;
  context.seed = seedOf(seed, rank, task.encodeAs);
  context.step = operation.step;
  context.tensor = tensor.id;
  context.firstElement = partitionOf(operation, task).range.first;
  // Sums have the input's factor in them.
  double scale = task.from.front().kind == Operand::Kind::kInput ? tensor.inputFactor : 1.0;
  if (task.encodeAs == EncodeAs::kResult) scale *= tensor.aggregateFactor;
  context.scale = static_cast<float>(scale);
  return context;
}

/// Of a message that this rank received: from whom; -1 for its own.
inline int senderOf(const Operation& operation, MessageIndex message) {
  for (const Task& task : operation.tensor->graph.tasks()) {
    if (task.primitive == Primitive::kRecv && task.message == message) return task.peer;
  }
  return -1;
}

/// Whether nobody had values for it in this step.
inline bool isAbsent(const Operation& operation, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::kInput:
      return operation.input == nullptr;
    case Operand::Kind::kMessage:
      return operation.messages[operand.index].absent();
    case Operand::Kind::kSum:
      return operation.sums[operand.index].absent;
    case Operand::Kind::kOutput:
      return operation.absent.load(std::memory_order_relaxed);
    case Operand::Kind::kNothing:
      return true;
  }
  return true;
}

/// What a merge of raw values adds up, of those who had any; `payloadOf(message)`: where a message's elements
/// are.
template <typename PayloadOf>
void collectRaw(const Operation& operation, const Task& merge, const PayloadOf& payloadOf,
                std::vector<const void*>& values) {
  const auto& partition = partitionOf(operation, merge);
  for (const Operand& operand : merge.from) {
    if (isAbsent(operation, operand)) continue;
    switch (operand.kind) {
      case Operand::Kind::kInput:
        values.push_back(inputSlice(operation, partition).data());
        break;
      case Operand::Kind::kMessage:
        values.push_back(payloadOf(operand.index).data());
        break;
      case Operand::Kind::kSum:
      case Operand::Kind::kOutput:
        values.push_back(outputSlice(operation, partition).data());
        break;
      case Operand::Kind::kNothing:
        break;
    }
  }
}

/// By what it multiplies their sum: partial sums travel without factors, as each could lose precision.
inline double rawFactor(const Tensor& tensor, const Task& merge) {
  return merge.mergeAs == MergeAs::kPartialSum ? 1.0 : tensor.inputFactor * tensor.aggregateFactor;
}

/// `bytes` seen as float32, converted into `scratch` if they are something else.
inline std::span<const float> asFloats(std::span<const std::byte> bytes, DType dtype, size_t count,
                                       BufferPool& pool, BufferPool::Buffer& scratch) {
  if (dtype == DType::kFloat32) return {reinterpret_cast<const float*>(bytes.data()), count};
  scratch = pool.take(count * sizeof(float));
  widen(bytes.data(), dtype, scratch.floats(count));
  return scratch.floats(count);
}

/// The error with what it is about. `sender`: -1 if the task says it all.
inline Error inContext(const Error& error, const Operation& operation, const Task& task, int sender) {
  std::string where =
      "tensor '" + operation.tensor->spec.name + "', partition " + std::to_string(task.partition);
  if (sender >= 0) where += ", from rank " + std::to_string(sender);
  return {error.kind(), where + ": " + error.what()};
}

}  // namespace hipress
