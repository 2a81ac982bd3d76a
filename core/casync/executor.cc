// SPDX-License-Identifier: Apache-2.0
#include "core/casync/executor.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/codec/crc32c.h"
#include "core/codec/wire_header.h"
#include "core/element/convert.h"
#include "core/element/reduce.h"

namespace hipress {
namespace {

const TensorPartition& partitionOf(const Operation& operation, const Task& task) {
  return operation.tensor->partitions[task.partition];
}

size_t byteOffset(const Operation& operation, const TensorPartition& partition) {
  return partition.range.first * elementSize(operation.tensor->spec.dtype);
}

size_t byteCount(const Operation& operation, const TensorPartition& partition) {
  return partition.range.count * elementSize(operation.tensor->spec.dtype);
}

std::span<const std::byte> inputSlice(const Operation& operation, const TensorPartition& partition) {
  return {operation.input + byteOffset(operation, partition), byteCount(operation, partition)};
}

std::span<std::byte> outputSlice(const Operation& operation, const TensorPartition& partition) {
  return {operation.output + byteOffset(operation, partition), byteCount(operation, partition)};
}

WireHeader headerFor(const Operation& operation, const TensorPartition& partition) {
  WireHeader header;
  header.codec = operation.tensor->codec->id();
  header.dtype = operation.tensor->spec.dtype;
  header.elementCount = partition.range.count;
  if (partition.raw) header.flags = kFlagRaw;
  return header;
}

/// `bytes` seen as float32, converted into `scratch` if they are something else.
std::span<const float> asFloats(std::span<const std::byte> bytes, DType dtype, size_t count, BufferPool& pool,
                                BufferPool::Buffer& scratch) {
  if (dtype == DType::kFloat32) return {reinterpret_cast<const float*>(bytes.data()), count};
  scratch = pool.take(count * sizeof(float));
  widen(bytes.data(), dtype, scratch.floats(count));
  return scratch.floats(count);
}

Error inContext(const Error& error, const Operation& operation, const Task& task, int sender) {
  std::string where =
      "tensor '" + operation.tensor->spec.name + "', partition " + std::to_string(task.partition);
  if (sender >= 0) where += ", from rank " + std::to_string(sender);
  return {error.kind(), where + ": " + error.what()};
}

}  // namespace

std::span<std::byte> Executor::accept(Operation& operation, const Task& recv, const MessageHeader& header,
                                      size_t payloadBytes) {
  const auto& partition = partitionOf(operation, recv);
  MessageState& message = operation.messages[recv.message];
  try {
    ExpectedMessage expected;
    expected.codec = operation.tensor->codec->id();
    expected.dtype = operation.tensor->spec.dtype;
    expected.elementCount = partition.range.count;
    expected.maxPayloadBytes = partition.maxPayloadBytes;
    message.header = unpackHeader(header, expected);
    if (message.header.payloadBytes != payloadBytes)
      throw corruptPayload("the payload is shorter or longer than its header says");
    const bool raw = (message.header.flags & kFlagRaw) != 0;
    if (!message.absent() && raw != partition.raw)
      throw corruptPayload("the payload is raw on one side only");
  } catch (const Error& error) {
    throw inContext(error, operation, recv, recv.peer);
  }
  std::span<std::byte> destination;
  if (message.absent()) {
    destination = {};
  } else if (partition.raw && operation.tensor->graph.messages()[recv.message].decoded) {
    destination = outputSlice(operation, partition);
  } else {
    message.buffer = pool_.take(payloadBytes);
    destination = message.buffer.first(payloadBytes);
  }
  message.payload = destination;
  return destination;
}

size_t Executor::work(const Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  if (partition.raw && task.primitive != Primitive::kMerge) return 0;
  return partition.range.count;
}

void Executor::run(Operation& operation, const Task& task) {
  switch (task.primitive) {
    case Primitive::kEncode:
      return encode(operation, task);
    case Primitive::kMerge:
      return merge(operation, task);
    case Primitive::kDecode:
      return decode(operation, task);
    case Primitive::kSend:
    case Primitive::kRecv:
      return;  // the transport's
  }
}

void Executor::encode(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const bool ofInput = task.source == EncodeSource::kInput;
  MessageState& message = operation.messages[task.message];
  message.header = headerFor(operation, partition);
  AggregateState& aggregate = operation.aggregates[task.partition];

  if (ofInput ? operation.input == nullptr : aggregate.absent) {
    message.header.flags = kFlagAbsent;
    message.payload = {};
    return;
  }
  if (partition.raw) {
    // Nothing to encode: the bytes go out from where they are. A merge of raw partitions wrote into the
    // output.
    message.payload = ofInput ? inputSlice(operation, partition)
                              : std::span<const std::byte>(outputSlice(operation, partition));
  } else {
    compress(operation, task);
  }
  message.header.payloadBytes = message.payload.size();
}

void Executor::compress(Operation& operation, const Task& task) {
  const Tensor& tensor = *operation.tensor;
  const auto& partition = partitionOf(operation, task);
  const bool ofInput = task.source == EncodeSource::kInput;
  MessageState& message = operation.messages[task.message];
  AggregateState& aggregate = operation.aggregates[task.partition];
  EncodeContext context;
  context.seed = seed_;
  context.step = operation.step;
  context.tensor = tensor.id;
  context.firstElement = partition.range.first;
  context.scale = static_cast<float>(ofInput ? tensor.inputFactor : tensor.aggregateFactor);
  context.parallel = &parallel_;
  BufferPool::Buffer scratch;
  const auto values = ofInput ? asFloats(inputSlice(operation, partition), tensor.spec.dtype,
                                         partition.range.count, pool_, scratch)
                              : std::span<const float>(aggregate.values.floats(partition.range.count));
  const Codec& codec = ofInput ? *tensor.codec : *tensor.aggregateCodec;
  TensorStates* states = ofInput ? operation.workerStates.get() : operation.aggregatorStates.get();
  StateLease lease;
  if (states != nullptr) lease = states->lease(task.partition);
  message.buffer = pool_.take(partition.maxPayloadBytes);
  const size_t bytes =
      codec.encode(values, lease.states(), context, message.buffer.first(partition.maxPayloadBytes));
  // An empty message says that something was not finite: it is sent like any other, the old states stay.
  if (bytes > 0 && states != nullptr) lease.commit();
  message.payload = message.buffer.first(bytes);
  message.header.flags = kFlagChecksum;
  message.header.checksum = crc32c(message.payload);
  aggregate.values.release();
}

void Executor::merge(Operation& operation, const Task& task) {
  if (partitionOf(operation, task).raw) {
    mergeRaw(operation, task);
  } else {
    mergeEncoded(operation, task);
  }
}

void Executor::mergeRaw(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  const Tensor& tensor = *operation.tensor;
  std::vector<const void*> values;
  for (const MessageIndex index : task.contributions) {
    if (index == kLocalContribution) {
      if (operation.input != nullptr) values.push_back(inputSlice(operation, partition).data());
    } else if (!operation.messages[index].absent()) {
      values.push_back(operation.messages[index].payload.data());
    }
  }
  operation.aggregates[task.partition].absent = values.empty();
  if (!values.empty()) {
    reduceInOrder(tensor.spec.dtype, values, partition.range.count,
                  tensor.inputFactor * tensor.aggregateFactor, outputSlice(operation, partition).data());
  }
  for (const MessageIndex index : task.contributions) {
    if (index != kLocalContribution) operation.messages[index].buffer.release();
  }
}

void Executor::addLocal(const Operation& operation, const TensorPartition& partition, std::span<float> sum,
                        bool first) {
  BufferPool::Buffer scratch;
  const auto values = asFloats(inputSlice(operation, partition), operation.tensor->spec.dtype,
                               partition.range.count, pool_, scratch);
  const auto factor = static_cast<float>(operation.tensor->inputFactor);
  if (first) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = factor * values[i];
  } else {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += factor * values[i];
  }
}

void Executor::mergeEncoded(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  AggregateState& aggregate = operation.aggregates[task.partition];
  aggregate.values = pool_.take(partition.range.count * sizeof(float));
  const auto sum = aggregate.values.floats(partition.range.count);
  bool first = true;
  for (size_t rank = 0; rank < task.contributions.size(); ++rank) {
    const MessageIndex index = task.contributions[rank];
    if (index == kLocalContribution) {
      if (operation.input == nullptr) continue;
      addLocal(operation, partition, sum, first);
    } else {
      MessageState& message = operation.messages[index];
      if (message.absent()) continue;
      try {
        verifyChecksum(message.header, message.payload);
        operation.tensor->codec->decode(message.payload, sum,
                                        first ? DecodeMode::kAssign : DecodeMode::kAccumulate, &parallel_);
      } catch (const Error& error) {
        throw inContext(error, operation, task, static_cast<int>(rank));
      }
      message.buffer.release();
    }
    first = false;
  }
  aggregate.absent = first;
}

void Executor::decode(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  MessageState& message = operation.messages[task.message];
  if (message.absent()) {
    operation.absent.store(true, std::memory_order_relaxed);
    return;
  }
  if (partition.raw) return;  // received, or merged, in place
  const Tensor& tensor = *operation.tensor;
  try {
    verifyChecksum(message.header, message.payload);
    const auto output = outputSlice(operation, partition);
    if (tensor.spec.dtype == DType::kFloat32) {
      tensor.codec->decode(message.payload, {reinterpret_cast<float*>(output.data()), partition.range.count},
                           DecodeMode::kAssign, &parallel_);
    } else {
      auto scratch = pool_.take(partition.range.count * sizeof(float));
      tensor.codec->decode(message.payload, scratch.floats(partition.range.count), DecodeMode::kAssign,
                           &parallel_);
      narrow(scratch.floats(partition.range.count), tensor.spec.dtype, output.data());
    }
  } catch (const Error& error) {
    throw inContext(error, operation, task, -1);
  }
}

}  // namespace hipress
