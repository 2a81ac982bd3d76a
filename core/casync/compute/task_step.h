// SPDX-License-Identifier: Apache-2.0
//
// A task with the stream that computes it, and how its values come to where the stream finds them. On the
// host they are there already, unless a message refers to the memory of a neighbour.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/device_values.h"
#include "core/casync/compute/step_values.h"
#include "core/device/device.h"

namespace hipress {

/// One task of an operation, with its stream, the stream's memory, and the memory that the task holds.
struct TaskStep {
  StepValues& operation;
  const Task& task;
  DeviceStream& stream;
  BufferPool& values;
  BufferPool& staging;
  TaskWork& work;
  DeviceValues* device;  // nullptr: on the host

  const Tensor& tensor() const { return *operation.tensor; }
  DType dtype() const { return operation.tensor->spec().dtype; }
  const TensorPartition& partition() const { return operation.tensor->partitions()[task.partition]; }
  MessageState& message() const { return operation.messages[task.message]; }
};

/// Memory of the stream until the task is done.
std::span<std::byte> hold(const TaskStep& step, size_t bytes);

/// `count` words on the device that the host reads when the task is done. nullptr on the host, where errors
/// are thrown, and for none.
uint32_t* takeWords(const TaskStep& step, size_t count);
void copyWords(const TaskStep& step, size_t count);

/// Where the stream finds the payload of a message that the host can read: a raw one, or a received one.
/// Throws PeerLost.
std::span<const std::byte> payloadOf(const TaskStep& step, MessageIndex message);

/// Reads elements to which a message refers, from `firstByte` on. Throws PeerLost.
void readReferred(const TaskStep& step, MessageIndex message, size_t firstByte, std::span<std::byte> into);

/// The input or a sum as float32. A sum is given up to the task.
std::span<const float> floatsOf(const TaskStep& step, const Operand& operand);

/// Decodes a message of this rank or of another one. Throws CorruptPayload.
void decodeMessage(const TaskStep& step, MessageIndex message, std::span<float> output, DecodeMode mode,
                   uint32_t* error);

}  // namespace hipress
