// SPDX-License-Identifier: Apache-2.0
#include "core/casync/executor.h"

#include <cstring>
#include <string>
#include <vector>

#include "core/casync/device_values.h"
#include "core/casync/operation_values.h"
#include "core/codec/crc32c.h"
#include "core/codec/wire_header.h"
#include "core/element/convert.h"

namespace hipress {
namespace {

/// Bytes; smaller ones are sent in less time than it takes to read another process' memory.
constexpr size_t kSmallestReferred = 16384;

}  // namespace

std::span<std::byte> Executor::accept(Operation& operation, const Task& recv, const MessageHeader& header,
                                      size_t payloadBytes) {
  const auto& partition = partitionOf(operation, recv);
  MessageState& message = operation.messages[recv.message];
  const bool expectRaw = isRaw(operation, partition, recv.message);
  try {
    ExpectedMessage expected;
    expected.codec = operation.tensor->codec->id();
    expected.dtype = operation.tensor->spec.dtype;
    expected.elementCount = receivedCount(operation, partition);
    expected.mayRefer = mayRefer(operation, recv.message);
    const size_t rawBytes = expected.elementCount * elementSize(operation.tensor->spec.dtype);
    expected.maxPayloadBytes = expectRaw ? rawBytes : partition.maxPayloadBytes;
    message.header = unpackHeader(header, expected);
    if (message.header.payloadBytes != payloadBytes)
      throw corruptPayload("the payload is shorter or longer than its header says");
    const bool raw = (message.header.flags & kFlagRaw) != 0;
    if (!message.absent() && raw != expectRaw) throw corruptPayload("the payload is raw on one side only");
  } catch (const Error& error) {
    throw inContext(error, operation, recv, recv.peer);
  }
  std::span<std::byte> destination;
  if (message.absent()) {
    destination = {};
  } else if (message.isReference()) {
    destination = std::as_writable_bytes(std::span(&message.reference, 1));
  } else if (operation.device == nullptr && expectRaw &&
             operation.tensor->graph.messages()[recv.message].decoded) {
    destination = outputSlice(operation, partition);
  } else {
    BufferPool& pool = operation.device == nullptr ? pool_ : operation.device->queue->staging();
    message.buffer = pool.take(payloadBytes);
    destination = message.buffer.first(payloadBytes);
  }
  message.payload = destination;
  return destination;
}

/// Whether the message may say where elements are instead of carrying them.
bool Executor::mayRefer(const Operation& operation, MessageIndex message) const {
  const Message& planned = operation.tensor->graph.messages()[message];
  return planned.lent && !readable_.empty() && readable_[static_cast<size_t>(planned.peer)];
}

size_t Executor::work(const Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  if (task.primitive != Primitive::kMerge && isRaw(operation, partition, task.message)) return 0;
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
  const Operand& from = task.from.front();
  const bool raw = isRaw(operation, partition, task.message);
  MessageState& message = operation.messages[task.message];
  message.header = headerFor(operation, partition, raw);
  if (isAbsent(operation, from)) {
    message.header.flags = kFlagAbsent;
    message.payload = {};
    return;
  }
  if (raw) {
    // Nothing to encode: the elements go out from where they are. Raw partitions are merged in the output.
    const bool ofInput = from.kind == Operand::Kind::kInput;
    message.payload = ofInput ? inputSlice(operation, partition)
                              : std::span<const std::byte>(outputSlice(operation, partition));
    if (message.payload.size() >= kSmallestReferred && mayRefer(operation, task.message)) {
      message.reference = MemoryReference::to(message.payload.data());
      message.payload = std::as_bytes(std::span(&message.reference, 1));
      message.header.flags |= kFlagReference;
    }
  } else {
    compress(operation, task);
  }
  message.header.payloadBytes = message.payload.size();
}

void Executor::compress(Operation& operation, const Task& task) {
  const Tensor& tensor = *operation.tensor;
  const auto& partition = partitionOf(operation, task);
  const Operand& from = task.from.front();
  const bool ofInput = from.kind == Operand::Kind::kInput;
  const bool byWorker = task.encodeAs == EncodeAs::kContribution;
  EncodeContext context = contextOf(operation, task, seed_, rank_);
  context.parallel = &parallel_;
  BufferPool::Buffer scratch;
  const auto values = ofInput ? asFloats(inputSlice(operation, partition), tensor.spec.dtype,
                                         partition.range.count, pool_, scratch)
                              : operation.sums[from.index].values.floats(partition.range.count);
  const Codec& codec = byWorker ? *tensor.codec : *tensor.aggregateCodec;
  StateLease lease(byWorker ? operation.workerStates : operation.aggregatorStates, task.partition);
  MessageState& message = operation.messages[task.message];
  message.buffer = pool_.take(partition.maxPayloadBytes);
  const size_t bytes =
      codec.encode(values, lease.states(), context, message.buffer.first(partition.maxPayloadBytes));
  // An empty message says that something was not finite: it is sent like any other, the old states stay.
  if (bytes > 0) lease.commit();
  message.payload = message.buffer.first(bytes);
  message.header.flags = kFlagChecksum;
  message.header.checksum = crc32c(message.payload);
  if (!ofInput) operation.sums[from.index].values.release();
}

void Executor::decode(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  MessageState& message = operation.messages[task.message];
  if (message.absent()) {
    operation.absent.store(true, std::memory_order_relaxed);
    return;
  }
  const Tensor& tensor = *operation.tensor;
  if (isRaw(operation, partition, task.message)) {
    // Received, or merged, in place; but this rank's own values may be somewhere else.
    const auto output = outputSlice(operation, partition);
    if (!output.empty() && message.payload.data() != output.data())
      std::memcpy(output.data(), message.payload.data(), output.size());
    return;
  }
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
