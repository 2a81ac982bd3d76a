// SPDX-License-Identifier: Apache-2.0
//
// Small steps that encodes, merges and decodes on a device share.
#pragma once

#include <cstdint>
#include <span>

#include "core/casync/device_executor.h"
#include "core/casync/operation_values.h"
#include "core/codec/wire_header.h"

namespace hipress {

/// `count` words on the device that the host reads when the task is done.
inline uint32_t* takeWords(DeviceValues& values, DeviceTask& task, size_t count) {
  task.words = values.queue->values().take(count * sizeof(uint32_t));
  task.results = values.queue->staging().take(count * sizeof(uint32_t));
  return reinterpret_cast<uint32_t*>(task.words.data());
}

inline void copyWords(const DeviceTask& task, size_t count, DeviceStream& stream) {
  stream.copyToHost(task.results.data(), task.words.first(count * sizeof(uint32_t)));
}

inline uint32_t wordOf(const DeviceTask& task, size_t index) {
  return reinterpret_cast<const uint32_t*>(task.results.data())[index];
}

/// Whether a merge decodes it.
inline bool isDecoded(const Operation& operation, const Operand& operand) {
  if (operand.kind != Operand::Kind::kMessage || isAbsent(operation, operand)) return false;
  return (operation.messages[operand.index].header.flags & kFlagRaw) == 0;
}

inline size_t decodedBy(const Operation& operation, const Task& merge) {
  size_t count = 0;
  for (const Operand& operand : merge.from) count += isDecoded(operation, operand) ? 1 : 0;
  return count;
}

/// Device memory until the task is done.
inline std::span<std::byte> holdFresh(DeviceValues& values, DeviceTask& task, size_t bytes) {
  task.held.push_back(values.queue->values().take(bytes));
  return task.held.back().first(bytes);
}

/// A message's payload, on the device; not for what this rank encoded.
inline std::span<const std::byte> copyOf(const Operation& operation, MessageIndex message, DeviceTask& task,
                                         DeviceStream& stream) {
  DeviceValues& values = *operation.device;
  if (!values.messages[message].received) return values.messages[message].elements;
  const auto payload = operation.messages[message].payload;
  if (payload.empty()) return {};
  const auto copy = holdFresh(values, task, payload.size());
  stream.copyToDevice(copy.data(), payload);
  return copy;
}

/// The call that decodes a message, but for its output. Throws CorruptPayload.
inline DeviceDecode decodeOf(const Operation& operation, const Task& task, MessageIndex number,
                             DeviceTask& own, DeviceStream& stream) {
  const DeviceValues& values = *operation.device;
  const MessageState& message = operation.messages[number];
  const DeviceMessage& there = values.messages[number];
  DeviceDecode call;
  call.codec = values.codec.get();
  if (!there.received) {
    call.payload = there.encoded.first(partitionOf(operation, task).maxPayloadBytes);
    call.payloadBytes = there.encodedBytes;
    return call;
  }
  try {
    verifyChecksum(message.header, message.payload);
  } catch (const Error& refused) {
    throw inContext(refused, operation, task, senderOf(operation, number));
  }
  call.payload = copyOf(operation, number, own, stream);
  return call;
}

}  // namespace hipress
