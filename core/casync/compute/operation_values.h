// SPDX-License-Identifier: Apache-2.0
//
// Finds the places and the properties of an operation's values, for the primitives that compute on them.
#pragma once

#include <span>
#include <string>

#include "core/casync/compute/step_values.h"

namespace hipress {

inline const TensorPartition& partitionOf(const StepValues& operation, const Task& task) {
  return operation.tensor->partitions()[task.partition];
}

inline std::span<const std::byte> inputSlice(const StepValues& operation, const TensorPartition& partition) {
  const size_t size = elementSize(operation.tensor->spec().dtype);
  return {operation.input + partition.range.first * size, partition.range.count * size};
}

inline std::span<std::byte> outputSlice(const StepValues& operation, const TensorPartition& partition) {
  const size_t size = elementSize(operation.tensor->spec().dtype);
  return {operation.output + partition.output.first * size, partition.output.count * size};
}

/// Elements of a received message: the block may have another size than the sent one.
inline size_t receivedCount(const StepValues& operation, const TensorPartition& partition) {
  const bool exchanges = operation.tensor->spec().collective() == Collective::kAllgather ||
                         operation.tensor->spec().collective() == Collective::kAlltoall;
  return exchanges ? partition.output.count : partition.range.count;
}

/// Whether a message carries the elements without a codec.
inline bool isRaw(const StepValues& operation, const TensorPartition& partition, MessageIndex message) {
  return partition.raw || operation.tensor->graph().messages()[message].plain;
}

/// Whether a raw message that this rank encodes has two elements in a byte.
inline bool isPacked(const StepValues& operation, MessageIndex message) {
  const Message& planned = operation.tensor->graph().messages()[message];
  return operation.tensor->packsOwn() && planned.own && !planned.plain;
}

inline WireHeader headerFor(const StepValues& operation, const TensorPartition& partition, bool raw) {
  WireHeader header;
  header.codec = operation.tensor->codec()->id();
  header.dtype = operation.tensor->spec().dtype;
  header.elementCount = partition.range.count;
  header.updates = operation.updates;
  if (raw) header.flags = kFlagRaw;
  return header;
}

/// The seed of a rank's random numbers for one purpose. With the same numbers on all ranks, rounding errors
/// would add up. With the same numbers for a sum and its contributions, the sum would be biased.
inline uint64_t seedOf(uint64_t seed, int rank, EncodeAs encodeAs) {
  const auto purposes = uint64_t{4};
  return seed + ((static_cast<uint64_t>(rank) * purposes + static_cast<uint64_t>(encodeAs)) << 32);
}

/// The context of an encode.
inline EncodeContext contextOf(const StepValues& operation, const Task& task, uint64_t seed) {
  const Tensor& tensor = *operation.tensor;
  EncodeContext context;
  context.seed = seedOf(seed, tensor.position(), task.encodeAs);
  context.step = operation.step;
  context.tensor = operation.randomTensor;
  context.firstElement = partitionOf(operation, task).range.first;
  // Sums have the input's factor already.
  double scale = task.from.front().kind == Operand::Kind::kInput ? tensor.inputFactor() : 1.0;
  if (task.encodeAs == EncodeAs::kResult) scale *= tensor.aggregateFactor();
  context.scale = static_cast<float>(scale);
  return context;
}

/// The rank that sent a message to this one; -1 for a message of this rank.
inline int senderOf(const StepValues& operation, MessageIndex message) {
  return operation.tensor->graph().messages()[message].sender;
}

/// Whether no rank had values for the operand in this step.
inline bool isAbsent(const StepValues& operation, const Operand& operand) {
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

/// Whether a merge decodes the contribution.
inline bool isDecoded(const StepValues& operation, const Operand& operand) {
  if (operand.kind != Operand::Kind::kMessage || isAbsent(operation, operand)) return false;
  return (operation.messages[operand.index].header.flags & kFlagRaw) == 0;
}

/// The factor of a merge of raw values. Partial sums travel without factors, because each factor could lose
/// precision.
inline double rawFactor(const Tensor& tensor, const Task& merge) {
  return merge.mergeAs == MergeAs::kPartialSum ? 1.0 : tensor.inputFactor() * tensor.aggregateFactor();
}

/// The error with tensor and partition. `sender`: the rank whose message caused it, or -1.
inline Error inContext(const Error& error, const StepValues& operation, const Task& task, int sender) {
  std::string where =
      "tensor '" + operation.tensor->spec().name + "', partition " + std::to_string(task.partition);
  if (sender >= 0) where += ", from rank " + std::to_string(sender);
  return {error.kind(), where + ": " + error.what()};
}

}  // namespace hipress
