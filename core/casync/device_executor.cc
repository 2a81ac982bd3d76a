// SPDX-License-Identifier: Apache-2.0
#include "core/casync/device_executor.h"

#include <set>
#include <string>
#include <utility>

#include "core/casync/device_steps.h"
#include "core/codec/crc32c.h"

namespace hipress {

void DeviceExecutor::begin(const std::shared_ptr<Operation>& operation) {
  if (operation->ready == nullptr) return;
  std::set<size_t> told;
  const Tensor& tensor = *operation->tensor;
  const DeviceQueue& queue = *operation->device->queue;
  for (size_t partition = 0; partition < tensor.partitions.size(); ++partition) {
    if (!told.insert(queue.streamIndex(tensor, partition)).second) continue;
    queue.streamOf(tensor, partition).waitFor(operation->ready);
    // The event is the caller's, and stays until it has been waited for.
    queue.streamOf(tensor, partition).whenDone([operation](const Failure&) {});
  }
}

DeviceStream& DeviceExecutor::streamOf(const Operation& operation, const Task& task) {
  return operation.device->queue->streamOf(*operation.tensor, task.partition);
}

bool DeviceExecutor::enqueue(Operation& operation, TaskIndex index) const {
  const Task& task = operation.tensor->graph.tasks()[index];
  if (task.primitive == Primitive::kMerge) return merge(operation, index);
  if (task.primitive == Primitive::kDecode) return decode(operation, index);

  const auto& partition = partitionOf(operation, task);
  const bool raw = isRaw(operation, partition, task.message);
  MessageState& message = operation.messages[task.message];
  message.header = headerFor(operation, partition, raw);
  if (isAbsent(operation, task.from.front())) {
    message.header.flags = kFlagAbsent;
    message.payload = {};
    return false;
  }
  return raw ? encodeRaw(operation, task) : compress(operation, index);
}

/// Nothing to encode; what is sent has to be on the host.
bool DeviceExecutor::encodeRaw(Operation& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  DeviceValues& device = *operation.device;
  MessageState& message = operation.messages[task.message];
  const bool ofInput = task.from.front().kind == Operand::Kind::kInput;
  const std::span<const std::byte> values =
      ofInput ? inputSlice(operation, partition)
              : std::span<const std::byte>(outputSlice(operation, partition));
  message.header.payloadBytes = values.size();
  device.messages[task.message].elements = values;
  if (!device.messages[task.message].sent) return false;
  message.buffer = device.queue->staging().take(values.size());
  message.payload = message.buffer.first(values.size());
  streamOf(operation, task).copyToHost(message.buffer.data(), values);
  return true;
}

bool DeviceExecutor::compress(Operation& operation, TaskIndex index) const {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  const auto& partition = partitionOf(operation, task);
  const size_t count = partition.range.count;
  DeviceValues& device = *operation.device;
  DeviceTask& own = device.tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  DeviceMessage& encoded = device.messages[task.message];
  MessageState& message = operation.messages[task.message];
  const Operand& from = task.from.front();
  const bool ofInput = from.kind == Operand::Kind::kInput;
  const bool byWorker = task.encodeAs == EncodeAs::kContribution;

  DeviceEncode call;
  call.codec = byWorker ? device.codec.get() : device.aggregateCodec.get();
  call.context = contextOf(operation, task, seed_, rank_);
  if (!ofInput) {
    own.held.push_back(std::move(operation.sums[from.index].values));
    call.input = own.held.back().floats(count);
  } else if (tensor.spec.dtype == DType::kFloat32) {
    const auto values = inputSlice(operation, partition);
    call.input = {reinterpret_cast<const float*>(values.data()), count};
  } else {
    const auto scratch = holdFresh(device, own, count * sizeof(float));
    const std::span<float> floats(reinterpret_cast<float*>(scratch.data()), count);
    stream.add(tensor.spec.dtype, inputSlice(operation, partition).data(), 1.0f, DecodeMode::kAssign, floats);
    call.input = floats;
  }
  own.lease.emplace(byWorker ? operation.workerStates : operation.aggregatorStates, task.partition);
  call.states = own.lease->states();
  encoded.encoded = device.queue->values().take(partition.maxPayloadBytes);
  call.message = encoded.encoded.first(partition.maxPayloadBytes);
  call.result = takeWords(device, own, 2);
  encoded.encodedBytes = call.result;
  message.header.flags = kFlagChecksum;
  stream.encode(call);
  copyWords(own, 2, stream);
  if (encoded.sent) {
    // All there is room for: how much of it counts is known only when it is there.
    message.buffer = device.queue->staging().take(partition.maxPayloadBytes);
    stream.copyToHost(message.buffer.data(), call.message);
  }
  return true;
}

bool DeviceExecutor::decode(Operation& operation, TaskIndex index) {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  const auto& partition = partitionOf(operation, task);
  DeviceValues& device = *operation.device;
  DeviceTask& own = device.tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  const MessageState& message = operation.messages[task.message];
  const DeviceMessage& there = device.messages[task.message];
  if (message.absent()) {
    operation.absent.store(true, std::memory_order_relaxed);
    return false;
  }
  const auto output = outputSlice(operation, partition);
  if (isRaw(operation, partition, task.message)) {
    if (output.empty() || there.elements.data() == output.data()) return false;  // merged in place
    if (there.received) {
      stream.copyToDevice(output.data(), message.payload);
    } else {  // this rank's own, from somewhere else
      const void* values[] = {there.elements.data()};
      stream.reduce(tensor.spec.dtype, values, partition.output.count, 1.0, output.data());
    }
    return true;
  }
  DeviceDecode call = decodeOf(operation, task, task.message, own, stream);
  const size_t count = partition.range.count;
  const bool direct = tensor.spec.dtype == DType::kFloat32;
  const auto target = direct ? output : holdFresh(device, own, count * sizeof(float));
  call.output = {reinterpret_cast<float*>(target.data()), count};
  call.error = takeWords(device, own, 1);
  stream.decode(call);
  if (!direct) stream.narrow(call.output, tensor.spec.dtype, output.data());
  copyWords(own, 1, stream);
  return true;
}

void DeviceExecutor::finish(Operation& operation, TaskIndex index) {
  const Task& task = operation.tensor->graph.tasks()[index];
  DeviceTask& own = operation.device->tasks[index];
  if (own.words && task.primitive == Primitive::kEncode) finishEncode(operation, index);
  if (own.words && task.primitive == Primitive::kDecode) checkDecode(operation, task, own, 0, task.message);
  if (own.words && task.primitive == Primitive::kMerge) {
    size_t word = 0;
    for (const Operand& operand : task.from) {
      if (!isDecoded(operation, operand)) continue;
      checkDecode(operation, task, own, word++, operand.index);
    }
  }
  own.held.clear();
  own.lease.reset();
}

void DeviceExecutor::finishEncode(Operation& operation, TaskIndex index) {
  const Task& task = operation.tensor->graph.tasks()[index];
  DeviceValues& device = *operation.device;
  DeviceTask& own = device.tasks[index];
  if (const uint32_t error = wordOf(own, 1); error != 0) {
    const bool byWorker = task.encodeAs == EncodeAs::kContribution;
    const DeviceCodec& codec = byWorker ? *device.codec : *device.aggregateCodec;
    throw inContext(invalidArgument("its encode is wrong: " + codec.refusal(error)), operation, task, -1);
  }
  const size_t bytes = wordOf(own, 0);
  // An empty message says that something was not finite: it is sent like any other, the old states stay.
  if (bytes > 0) own.lease->commit();
  if (!device.messages[task.message].sent) return;
  MessageState& message = operation.messages[task.message];
  message.payload = message.buffer.first(bytes);
  message.header.payloadBytes = bytes;
  message.header.checksum = crc32c(message.payload);
}

void DeviceExecutor::checkDecode(const Operation& operation, const Task& task, const DeviceTask& own,
                                 size_t word, MessageIndex message) {
  const uint32_t error = wordOf(own, word);
  if (error == 0) return;
  throw inContext(corruptPayload(operation.device->codec->refusal(error)), operation, task,
                  senderOf(operation, message));
}

}  // namespace hipress
