// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/task_step.h"

#include <algorithm>
#include <utility>

#include "core/casync/compute/operation_values.h"

namespace hipress {
namespace {

/// Replaces a message's reference by the elements. Throws PeerLost.
void fetchReferred(const TaskStep& step, MessageIndex number) {
  MessageState& message = step.operation.messages[number];
  if (!message.isReference()) return;
  const size_t bytes = step.partition().range.count * elementSize(step.dtype());
  message.buffer = step.staging.take(bytes);
  readReferred(step, number, 0, message.buffer.first(bytes));
  message.payload = message.buffer.first(bytes);
  message.header.flags = kFlagRaw;
}

/// Elements that the host writes at a time: few enough to stay in the cache until it looks at them.
constexpr size_t kWritten = 32768;

uint32_t* watchedWord(const TaskStep& step, size_t errors) {
  return reinterpret_cast<uint32_t*>(step.work.words.data()) + errors;
}

size_t wordsOf(const TaskStep& step, size_t errors) {
  return errors + (watchesOutput(step.operation, step.task) ? 1 : 0);
}

}  // namespace

std::span<std::byte> hold(const TaskStep& step, size_t bytes) {
  return step.work.held.add(step.values.take(bytes)).first(bytes);
}

uint32_t* takeWords(const TaskStep& step, size_t count) {
  if (step.device == nullptr || count == 0) return nullptr;
  step.work.words = step.values.take(count * sizeof(uint32_t));
  step.work.results = step.staging.take(count * sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(step.work.words.data());
}

void copyWords(const TaskStep& step, size_t count) {
  if (!step.work.words) return;
  step.stream.copyToHost(step.work.results.data(), step.work.words.first(count * sizeof(uint32_t)));
}

std::span<const std::byte> payloadOf(const TaskStep& step, MessageIndex number) {
  fetchReferred(step, number);
  const MessageState& message = step.operation.messages[number];
  if (step.device == nullptr) return message.payload;
  if (!step.tensor().graph().messages()[number].received) return step.device->messages[number].elements;
  if (message.payload.empty()) return {};
  const auto copy = hold(step, message.payload.size());
  step.stream.copyToDevice(copy.data(), message.payload);
  return copy;
}

void readReferred(const TaskStep& step, MessageIndex number, size_t firstByte, std::span<std::byte> into) {
  try {
    readMemory(step.operation.messages[number].reference.after(firstByte), into);
  } catch (const Error& error) {
    throw inContext(error, step.operation, step.task, senderOf(step.operation, number));
  }
}

std::span<const float> floatsOf(const TaskStep& step, const Operand& operand) {
  const size_t count = step.partition().range.count;
  if (operand.kind == Operand::Kind::kSum) {
    return step.work.held.add(std::move(step.operation.sums[operand.index].values)).floats(count);
  }
  const auto input = inputSlice(step.operation, step.partition());
  if (step.dtype() == DType::kFloat32) return {reinterpret_cast<const float*>(input.data()), count};
  const std::span<float> floats(reinterpret_cast<float*>(hold(step, count * sizeof(float)).data()), count);
  const void* values[] = {input.data()};
  step.stream.add(step.dtype(), values, 1.0f, DecodeMode::kAssign, floats);
  return floats;
}

void decodeMessage(const TaskStep& step, MessageIndex number, std::span<float> output, DecodeMode mode,
                   uint32_t* error) {
  const MessageState& message = step.operation.messages[number];
  DeviceDecode call;
  call.codec = step.tensor().codec().get();
  call.output = output;
  call.mode = mode;
  call.error = error;
  try {
    const bool received = step.tensor().graph().messages()[number].received;
    if (received) verifyChecksum(message.header, message.payload);
    if (step.device != nullptr) call.deviceCodec = step.device->codec.get();
    if (received || step.device == nullptr) {
      call.payload = payloadOf(step, number);
    } else {
      const DeviceMessage& own = step.device->messages[number];
      call.payload = own.encoded.first(step.partition().maxPayloadBytes);
      call.payloadBytes = own.encodedBytes;
    }
    step.stream.decode(call);
  } catch (const Error& refused) {
    throw inContext(refused, step.operation, step.task, senderOf(step.operation, number));
  }
}

bool watchesOutput(const StepValues& operation, const Task& task) {
  const bool keepsStates = operation.tensor->keepsStates();
  if (!keepsStates && operation.verdict == nullptr) return false;
  if (task.primitive == Primitive::kMerge) return task.mergeAs == MergeAs::kOutput;
  if (task.primitive != Primitive::kDecode) return false;
  return !keepsStates || isRaw(operation, partitionOf(operation, task), task.message) ||
         operation.tensor->spec().dtype != DType::kFloat32;
}

uint32_t* takeWordsOf(const TaskStep& step, size_t errors) {
  const size_t words = wordsOf(step, errors);
  uint32_t* const taken = takeWords(step, words);
  if (taken != nullptr && words > errors)
    step.stream.fillZeros(std::as_writable_bytes(std::span(taken + errors, 1)));
  return taken;
}

void copyWordsOf(const TaskStep& step, size_t errors) {
  copyWords(step, wordsOf(step, errors));
}

void watch(const TaskStep& step, std::span<const std::byte> elements, size_t errors) {
  if (elements.empty() || !watchesOutput(step.operation, step.task)) return;
  uint32_t found = 0;
  uint32_t* const word = step.device == nullptr ? &found : watchedWord(step, errors);
  step.stream.flagNotFinite(step.dtype(), elements.data(), elements.size() / elementSize(step.dtype()), word);
  if (found != 0) step.operation.notFinite.store(true, std::memory_order_relaxed);
}

void writeOutput(const TaskStep& step, std::span<float> values, float factor, size_t errors) {
  const auto output = outputSlice(step.operation, step.partition());
  const bool inPlace = output.data() == reinterpret_cast<const std::byte*>(values.data());
  const size_t size = elementSize(step.dtype());
  const size_t most = step.device == nullptr ? kWritten : std::max<size_t>(values.size(), 1);
  for (size_t begin = 0; begin < values.size(); begin += most) {
    const std::span<float> part = values.subspan(begin, std::min(most, values.size() - begin));
    const auto written = output.subspan(begin * size, part.size() * size);
    if (factor != 1.0f) {
      const void* unscaled[] = {part.data()};
      step.stream.combine(Combination::kSum, DType::kFloat32, unscaled, part.size(), factor, part.data());
    }
    if (!inPlace) step.stream.narrow(part, step.dtype(), written.data());
    watch(step, written, errors);
  }
}

void endWatch(const TaskStep& step, size_t errors) {
  if (!step.work.words || !watchesOutput(step.operation, step.task)) return;
  if (reinterpret_cast<const uint32_t*>(step.work.results.data())[errors] != 0)
    step.operation.notFinite.store(true, std::memory_order_relaxed);
}

}  // namespace hipress
