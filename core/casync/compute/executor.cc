// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/executor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/casync/compute/merge.h"
#include "core/casync/compute/operation_values.h"
#include "core/codec/wire/crc32c.h"
#include "core/codec/wire/wire_header.h"
#include "core/device/keep_until_done.h"
#include "core/element/nibbles.h"

namespace hipress {
namespace {

/// In bytes. A smaller message takes less time than reading another process' memory.
constexpr size_t kSmallestReferred = 16384;

/// The error if, of two ranks, only one has updated a parameter from the gradients of the step before, or if
/// they multiply the results by different factors.
Error outOfStep(const StepValues& operation, int peer, uint16_t theirs, int rank) {
  const uint32_t aheadOfThis = (countIn(theirs) + kUpdatesCycle - countIn(operation.updates)) % kUpdatesCycle;
  if (aheadOfThis == 0) {
    return {
        ErrorKind::kMismatch,
        "rank " + std::to_string(std::min(peer, rank)) + " and rank " + std::to_string(std::max(peer, rank)) +
            " multiply the combined '" + operation.tensor->spec().name +
            "' by different factors, so their parameters would differ: in this step or an earlier one "
            "they gave different batch sizes, or had different loss scales. Give the same batch size on "
            "all ranks: where the ranks' own differ, their mean (their sum if the ranks' values are summed)"};
  }
  const bool peerIsBehind = aheadOfThis > kUpdatesCycle / 2;
  const std::string behind = "rank " + std::to_string(peerIsBehind ? peer : rank);
  const std::string ahead = "rank " + std::to_string(peerIsBehind ? rank : peer);
  return {ErrorKind::kMismatch,
          behind + " did not make an update of '" + operation.tensor->spec().name + "' that " + ahead +
              " made, and began the next step: the ranks' parameters differ from now on. " + behind +
              " may have caught an exception after backward and continued, or skipped a step alone. Start "
              "again from a checkpoint, and let such exceptions end the rank"};
}

std::span<const std::byte> withoutZerosAtEnd(std::span<const std::byte> bytes) {
  size_t size = bytes.size();
  while (size > 0 && bytes[size - 1] == std::byte{0}) --size;
  return bytes.first(size);
}

}  // namespace

std::span<std::byte> Executor::accept(StepValues& operation, const Task& recv, const WireHeaderBytes& header,
                                      size_t payloadBytes) {
  const auto& partition = partitionOf(operation, recv);
  MessageState& message = operation.messages[recv.message];
  const bool expectRaw = isRaw(operation, partition, recv.message);
  try {
    ExpectedMessage expected;
    expected.codec = operation.tensor->codec()->id();
    expected.dtype = operation.tensor->spec().dtype;
    expected.elementCount = receivedCount(operation, partition);
    expected.mayRefer = mayRefer(operation, recv.message);
    expected.trimmed = operation.tensor->spec().trimmed();
    const Message& planned = operation.tensor->graph().messages()[recv.message];
    expected.mayPack = operation.tensor->packsOwn() && !planned.plain && !planned.decoded;
    const size_t rawBytes = expected.elementCount * elementSize(operation.tensor->spec().dtype);
    expected.maxPayloadBytes = expectRaw ? rawBytes : partition.maxPayloadBytes;
    message.header = unpackHeader(header, expected);
    if (message.header.payloadBytes != payloadBytes)
      throw corruptPayload("the payload is shorter or longer than its header says");
    const bool raw = (message.header.flags & kFlagRaw) != 0;
    if (!message.absent() && raw != expectRaw) throw corruptPayload("the payload is raw on one side only");
  } catch (const Error& error) {
    throw inContext(error, operation, recv, recv.peer);
  }
  const uint16_t theirs = message.header.updates;
  if (theirs != 0 && operation.updates != 0 && theirs != operation.updates)
    throw outOfStep(operation, recv.peer, theirs, rank_);
  std::span<std::byte> destination;
  if (message.absent()) {
    destination = {};
  } else if (message.isReference()) {
    destination = std::as_writable_bytes(std::span(&message.reference, 1));
  } else if (operation.device == nullptr && expectRaw &&
             operation.tensor->graph().messages()[recv.message].decoded) {
    destination = outputSlice(operation, partition);
    // Shorter only without the zeros at the end, as the header's check has found.
    std::ranges::fill(destination.subspan(payloadBytes), std::byte{0});
    destination = destination.first(payloadBytes);
  } else {
    BufferPool& pool = operation.device == nullptr ? pool_ : operation.device->queue->staging();
    message.buffer = pool.take(payloadBytes);
    destination = message.buffer.first(payloadBytes);
  }
  message.payload = destination;
  return destination;
}

/// Whether a message of this rank may refer to its elements instead of carrying them.
bool Executor::mayRefer(const StepValues& operation, MessageIndex message) const {
  const Message& planned = operation.tensor->graph().messages()[message];
  return planned.lent && !neighbours_.empty() && neighbours_[static_cast<size_t>(planned.peer)] != 0;
}

void Executor::checkReceived(const StepValues& operation, const Task& recv) const {
  const MessageState& message = operation.messages[recv.message];
  const bool hasHalf = message.isPacked() && message.header.elementCount % 2 != 0;
  if (hasHalf && (message.payload.back() >> 4) != std::byte{0})
    throw inContext(corruptPayload("the unused half of its last byte is not 0"), operation, recv, recv.peer);
  if (message.absent() || !message.isReference()) return;
  const uint64_t process = neighbours_[static_cast<size_t>(recv.peer)];
  if (message.reference.process == process) return;
  throw inContext(
      corruptPayload("it refers to the memory of process " + std::to_string(message.reference.process) +
                     ", and its sender is process " + std::to_string(process)),
      operation, recv, recv.peer);
}

void Executor::begin(const std::shared_ptr<StepValues>& operation) {
  const Tensor& tensor = *operation->tensor;
  DeviceValues* const device = operation->device.get();
  if (device != nullptr && operation->ready != nullptr) {
    for (DeviceStream* stream : device->queue->streamsOf(tensor)) stream->waitFor(operation->ready);
  }
  const bool scales = tensor.ownFactor() != 1.0 && operation->input != nullptr && tensor.spec().count > 0;
  if (scales) {
    BufferPool::Buffer& scaled = device == nullptr ? operation->scaled : device->scaled;
    scaled = (device == nullptr ? pool_ : device->queue->values()).take(tensor.inputBytes());
    const size_t size = elementSize(tensor.spec().dtype);
    for (size_t partition = 0; partition < tensor.partitions().size(); ++partition) {
      const Partition& range = tensor.partitions()[partition].range;
      if (range.count == 0) continue;
      DeviceStream& stream = device == nullptr ? host_ : device->queue->streamOf(tensor, partition);
      const void* values[] = {operation->input + range.first * size};
      stream.combine(Combination::kSum, tensor.spec().dtype, values, range.count, tensor.ownFactor(),
                     scaled.data() + range.first * size);
    }
    operation->input = scaled.data();
  }
  if (device == nullptr || (operation->ready == nullptr && !scales)) return;
  // The caller owns the event and the operation keeps it alive: the operation must stay until the streams
  // have waited for the event. The scaled values need the same.
  for (DeviceStream* stream : device->queue->streamsOf(tensor)) keepUntilDone(*stream, operation);
}

size_t Executor::work(const StepValues& operation, const Task& task) {
  const auto& partition = partitionOf(operation, task);
  if (task.primitive == Primitive::kMerge || !isRaw(operation, partition, task.message) ||
      watchesOutput(operation, task))
    return partition.range.count;
  const bool packs = task.primitive == Primitive::kEncode && isPacked(operation, task.message);
  return packs ? partition.range.count : 0;
}

void Executor::run(StepValues& operation, const Task& task) {
  TaskWork work;
  const TaskStep step{operation, task, host_, pool_, pool_, work, nullptr};
  if (start(step)) finish(step);
}

DeviceStream& Executor::streamOf(const StepValues& operation, const Task& task) {
  return operation.device->queue->streamOf(*operation.tensor, task.partition);
}

TaskStep Executor::stepOnDevice(StepValues& operation, TaskIndex index) const {
  const Task& task = operation.tensor->graph().tasks()[index];
  DeviceValues& device = *operation.device;
  return {
      operation,           task,   streamOf(operation, task), device.queue->values(), device.queue->staging(),
      device.tasks[index], &device};
}

bool Executor::enqueue(StepValues& operation, TaskIndex index) {
  return start(stepOnDevice(operation, index));
}

void Executor::finish(StepValues& operation, TaskIndex index) {
  const TaskStep step = stepOnDevice(operation, index);
  finish(step);
  step.work.held.release();
  step.work.lease.reset();
}

/// Returns whether the stream has work, so that finish() must be called.
bool Executor::start(const TaskStep& step) {
  switch (step.task.primitive) {
    case Primitive::kEncode:
      return encode(step);
    case Primitive::kMerge:
      return merge(step);
    case Primitive::kDecode:
      return decode(step);
    case Primitive::kSend:
    case Primitive::kRecv:
      return false;  // work of the transport
  }
  return false;
}

void Executor::finish(const TaskStep& step) {
  if (step.work.lease) return finishEncode(step);
  if (!step.work.words) return;
  size_t word = 0;
  if (step.task.primitive == Primitive::kDecode &&
      !isRaw(step.operation, step.partition(), step.task.message))
    checkDecode(step, word++, step.task.message);
  for (const Operand& operand : step.task.from) {
    if (isDecoded(step.operation, operand)) checkDecode(step, word++, operand.index);
  }
  endWatch(step, word);
}

bool Executor::encode(const TaskStep& step) {
  const bool raw = isRaw(step.operation, step.partition(), step.task.message);
  MessageState& message = step.message();
  message.header = headerFor(step.operation, step.partition(), raw);
  if (isAbsent(step.operation, step.task.from.front())) {
    message.header.flags = kFlagAbsent;
    message.payload = {};
    return false;
  }
  if (!raw) {
    compress(step);
    return true;
  }
  encodeRaw(step);
  return step.device != nullptr && step.tensor().graph().messages()[step.task.message].sent;
}

/// A raw message needs no encode. On the host the rank sends the elements from their place; a device copies
/// them to staging. Merges of raw partitions write to the output.
void Executor::encodeRaw(const TaskStep& step) {
  MessageState& message = step.message();
  const bool ofInput = step.task.from.front().kind == Operand::Kind::kInput;
  message.payload = ofInput ? inputSlice(step.operation, step.partition())
                            : std::span<const std::byte>(outputSlice(step.operation, step.partition()));
  if (step.tensor().spec().trimmed()) {
    message.payload = withoutZerosAtEnd(message.payload);
    message.header.flags |= kFlagTrimmed;
  }
  message.header.payloadBytes = message.payload.size();
  if (isPacked(step.operation, step.task.message)) return pack(step);
  if (step.device != nullptr) {
    const auto elements = step.device->messages[step.task.message].elements = message.payload;
    message.payload = {};
    if (!step.tensor().graph().messages()[step.task.message].sent) return;
    message.buffer = step.staging.take(elements.size());
    message.payload = message.buffer.first(elements.size());
    step.stream.copyToHost(message.buffer.data(), elements);
  } else if (message.payload.size() >= kSmallestReferred && mayRefer(step.operation, step.task.message)) {
    message.reference = MemoryReference::to(message.payload.data());
    message.payload = std::as_bytes(std::span(&message.reference, 1));
    message.header.payloadBytes = message.payload.size();
    message.header.flags |= kFlagReference;
  }
}

/// Replaces the payload, this rank's values, by the same values in 4 bits each.
void Executor::pack(const TaskStep& step) {
  MessageState& message = step.message();
  const size_t bytes = nibbleBytes(message.payload.size());
  message.buffer = step.staging.take(bytes);
  if (!packNibbles(message.payload.data(), message.payload.size(), message.buffer.data())) {
    throw inContext(invalidArgument("rank " + std::to_string(rank_) +
                                    " has a value that is not in -8..7, and the tensor's magnitudes are " +
                                    std::to_string(step.tensor().spec().allreduce()->greatest) +
                                    " at most; declare it with the magnitude that its values can have"),
                    step.operation, step.task, -1);
  }
  message.payload = message.buffer.first(bytes);
  message.header.payloadBytes = bytes;
  message.header.flags |= kFlagPacked;
}

void Executor::compress(const TaskStep& step) {
  const bool byWorker = step.task.encodeAs == EncodeAs::kContribution;
  const size_t room = step.partition().maxPayloadBytes;
  MessageState& message = step.message();
  DeviceEncode call;
  call.codec = (byWorker ? step.tensor().codec() : step.tensor().aggregateCodec()).get();
  call.context = contextOf(step.operation, step.task, seed_);
  call.input = floatsOf(step, step.task.from.front());
  auto& states = byWorker ? step.operation.workerStates : step.operation.aggregatorStates;
  call.states = step.work.lease.emplace(states, step.task.partition).states();
  call.bytes = &step.work.encodedBytes;
  message.header.flags = kFlagChecksum;
  if (step.device == nullptr) {
    message.buffer = step.values.take(room);
    call.message = message.buffer.first(room);
    return step.stream.encode(call);
  }
  DeviceMessage& encoded = step.device->messages[step.task.message];
  encoded.encoded = step.values.take(room);
  call.message = encoded.encoded.first(room);
  call.deviceCodec = (byWorker ? step.device->codec : step.device->aggregateCodec).get();
  encoded.encodedBytes = call.result = takeWords(step, 2);
  step.stream.encode(call);
  copyWords(step, 2);
  if (step.tensor().graph().messages()[step.task.message].sent) {
    // Takes room for the largest message: its size is known only when the encode is done.
    message.buffer = step.staging.take(room);
    step.stream.copyToHost(message.buffer.data(), call.message);
  }
}

void Executor::finishEncode(const TaskStep& step) {
  MessageState& message = step.message();
  size_t bytes = step.work.encodedBytes;
  if (step.device != nullptr) {
    const auto* results = reinterpret_cast<const uint32_t*>(step.work.results.data());
    if (results[1] != 0) {
      const bool byWorker = step.task.encodeAs == EncodeAs::kContribution;
      const DeviceCodec& codec = byWorker ? *step.device->codec : *step.device->aggregateCodec;
      throw inContext(invalidArgument("its encode is wrong: " + codec.refusal(results[1])), step.operation,
                      step.task, -1);
    }
    bytes = results[0];
  }
  // A message of 0 bytes says that a value was not finite. The sum with it is not finite on any rank.
  if (bytes > 0) {
    step.work.lease->stage();
  } else if (step.partition().range.count > 0) {
    step.operation.notFinite.store(true, std::memory_order_relaxed);
  }
  if (!message.buffer) return;  // a message on a device that no task sends
  message.payload = message.buffer.first(bytes);
  message.header.payloadBytes = bytes;
  if (step.tensor().graph().messages()[step.task.message].sent)
    message.header.checksum = crc32c(message.payload);
}

bool Executor::decode(const TaskStep& step) {
  const MessageState& message = step.message();
  if (message.absent()) {
    step.operation.absent.store(true, std::memory_order_relaxed);
    return false;
  }
  const auto output = outputSlice(step.operation, step.partition());
  if (isRaw(step.operation, step.partition(), step.task.message)) {
    if (output.empty()) return false;
    const bool copied = decodeRaw(step, output);
    if (!watchesOutput(step.operation, step.task)) return copied;
    takeWordsOf(step, 0);
    watch(step, output, 0);
    copyWordsOf(step, 0);
    return true;
  }
  const size_t count = step.partition().range.count;
  const bool received = step.tensor().graph().messages()[step.task.message].received;
  if (received && message.payload.empty() && count > 0)
    step.operation.notFinite.store(true, std::memory_order_relaxed);
  const bool inPlace = step.dtype() == DType::kFloat32;
  const auto target = inPlace ? output : hold(step, count * sizeof(float));
  const std::span<float> floats(reinterpret_cast<float*>(target.data()), count);
  decodeMessage(step, step.task.message, floats, DecodeMode::kAssign, takeWordsOf(step, 1));
  inPlace ? watch(step, output, 1) : writeOutput(step, floats, 1.0f, 1);
  copyWordsOf(step, 1);
  return true;
}

/// Returns whether the stream has work.
bool Executor::decodeRaw(const TaskStep& step, std::span<std::byte> output) {
  if (step.device != nullptr && step.tensor().graph().messages()[step.task.message].received) {
    step.stream.copyToDevice(output.data(), step.message().payload);
    return true;
  }
  // The output has a payload that was received or merged in place. This rank's own values may be elsewhere.
  const auto elements = payloadOf(step, step.task.message);
  if (elements.data() == output.data()) return false;
  const size_t present = std::min(elements.size(), output.size());
  // This rank's own block without the zeros at its end.
  if (step.device == nullptr) std::ranges::fill(output.subspan(present), std::byte{0});
  step.stream.copy(output.data(), elements.first(present));
  return true;
}

/// Throws CorruptPayload if the device has rejected the message.
void Executor::checkDecode(const TaskStep& step, size_t word, MessageIndex message) {
  const uint32_t error = reinterpret_cast<const uint32_t*>(step.work.results.data())[word];
  if (error == 0) return;
  throw inContext(corruptPayload(step.device->codec->refusal(error)), step.operation, step.task,
                  senderOf(step.operation, message));
}

}  // namespace hipress
