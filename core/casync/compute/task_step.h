// SPDX-License-Identifier: Apache-2.0
//
// A task with the stream that computes it, and the functions that bring its values to the stream. On the host
// the stream can read them already, unless a message refers to a neighbour's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/device_values.h"
#include "core/casync/compute/step_values.h"
#include "core/device/device.h"

namespace hipress {

/// One task of an operation, with its stream, the stream's pools, and the memory that the task holds.
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

/// Takes memory of the stream until the task is done.
std::span<std::byte> hold(const TaskStep& step, size_t bytes);

/// Takes `count` words on the device, which the host reads when the task is done. nullptr on the host, where
/// errors are exceptions, and for 0 words.
uint32_t* takeWords(const TaskStep& step, size_t count);
void copyWords(const TaskStep& step, size_t count);

/// The payload, readable for the stream, of a message that the host can read: a raw or a received one. Throws
/// PeerLost.
std::span<const std::byte> payloadOf(const TaskStep& step, MessageIndex message);

/// Reads the elements to which a message refers, from `firstByte` on. Throws PeerLost.
void readReferred(const TaskStep& step, MessageIndex message, size_t firstByte, std::span<std::byte> into);

/// The input or a sum as float32. The task takes over the memory of a sum.
std::span<const float> floatsOf(const TaskStep& step, const Operand& operand);

/// Decodes a message of this rank or of another one. Throws CorruptPayload.
void decodeMessage(const TaskStep& step, MessageIndex message, std::span<float> output, DecodeMode mode,
                   uint32_t* error);

// A step whose average is not finite changes no state (StepValues::notFinite). Where no encoded message tells
// whether the result is finite, the task that writes the result looks at it.

/// Whether the task looks at the elements that it writes to the output: raw ones, sums of all contributions,
/// values of a codec that encodes infinity, and float32 values that become infinite in a narrower type.
bool watchesOutput(const StepValues& operation, const Task& task);

/// Takes the device's words of the task: `errors` of them, and one more for a task that watches its output.
uint32_t* takeWordsOf(const TaskStep& step, size_t errors);
void copyWordsOf(const TaskStep& step, size_t errors);

/// Looks at elements of the output, if the task does so. `errors`: as in takeWordsOf().
void watch(const TaskStep& step, std::span<const std::byte> elements, size_t errors);

/// Writes factor * values to the output, in the tensor's type, and watches it. `values` may be in the output.
void writeOutput(const TaskStep& step, std::span<float> values, float factor, size_t errors);

/// The device has done the task: reads the word of watch().
void endWatch(const TaskStep& step, size_t errors);

}  // namespace hipress
