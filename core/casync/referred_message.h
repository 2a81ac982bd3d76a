// SPDX-License-Identifier: Apache-2.0
//
// Messages that say where their elements are in the memory of a neighbour, instead of carrying them.
#pragma once

#include "core/casync/operation_values.h"

namespace hipress {

/// Elements of such a message, from `firstByte` on. Throws PeerLost.
inline void readReferred(const Operation& operation, const Task& task, MessageIndex message, size_t firstByte,
                         std::span<std::byte> into) {
  try {
    readMemory(operation.messages[message].reference.after(firstByte), into);
  } catch (const Error& error) {
    throw inContext(error, operation, task, senderOf(operation, message));
  }
}

/// Makes it a message that carries them, for who needs them all at once. Throws PeerLost.
inline void fetchReferred(Operation& operation, const Task& task, MessageIndex number, BufferPool& pool) {
  MessageState& message = operation.messages[number];
  if (!message.isReference()) return;
  const size_t bytes = partitionOf(operation, task).range.count * elementSize(operation.tensor->spec.dtype);
  message.buffer = pool.take(bytes);
  readReferred(operation, task, number, 0, message.buffer.first(bytes));
  message.payload = message.buffer.first(bytes);
  message.header.flags = kFlagRaw;
}

}  // namespace hipress
