// SPDX-License-Identifier: Apache-2.0
//
// Where the values of an operation's partitions are, for the primitives that compute on them.
#pragma once

#include <span>
#include <string>

#include "core/casync/operation.h"
#include "core/element/convert.h"

namespace hipress {

inline const TensorPartition& partitionOf(const Operation& operation, const Task& task) {
  return operation.tensor->partitions[task.partition];
}

inline size_t byteOffset(const Operation& operation, const TensorPartition& partition) {
  return partition.range.first * elementSize(operation.tensor->spec.dtype);
}

inline size_t byteCount(const Operation& operation, const TensorPartition& partition) {
  return partition.range.count * elementSize(operation.tensor->spec.dtype);
}

inline std::span<const std::byte> inputSlice(const Operation& operation, const TensorPartition& partition) {
  return {operation.input + byteOffset(operation, partition), byteCount(operation, partition)};
}

inline std::span<std::byte> outputSlice(const Operation& operation, const TensorPartition& partition) {
  return {operation.output + byteOffset(operation, partition), byteCount(operation, partition)};
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
