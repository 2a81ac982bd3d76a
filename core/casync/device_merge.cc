// SPDX-License-Identifier: Apache-2.0
//
// The merge on a device: contributions of several ranks become one sum, in the order that the graph gives.
#include <string>
#include <utility>
#include <vector>

#include "core/casync/device_steps.h"
#include "core/casync/referred_message.h"

namespace hipress {

bool DeviceExecutor::merge(Operation& operation, TaskIndex index) {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  const auto& partition = partitionOf(operation, task);
  const size_t count = partition.range.count;
  const bool toOutput = task.mergeAs == MergeAs::kOutput;
  DeviceValues& device = *operation.device;
  DeviceTask& own = device.tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  SumState& sum = operation.sums[task.sum];
  for (const Operand& operand : task.from) {
    if (operand.kind == Operand::Kind::kMessage)
      fetchReferred(operation, task, operand.index, device.queue->staging());
  }
  if (partition.raw) {
    sum.absent = !mergeRaw(operation, index);
  } else {
    sum.values = device.queue->values().take(count * sizeof(float));
    const auto values = sum.values.floats(count);
    sum.absent = !mergeEncoded(operation, index, values);
    if (toOutput && !sum.absent) {
      const void* scaled[] = {values.data()};
      stream.reduce(DType::kFloat32, scaled, count, static_cast<float>(tensor.aggregateFactor),
                    values.data());
      stream.narrow(values, tensor.spec.dtype, outputSlice(operation, partition).data());
    }
    if (toOutput || sum.absent) own.held.push_back(std::move(sum.values));
  }
  if (toOutput && sum.absent) operation.absent.store(true, std::memory_order_relaxed);
  return !sum.absent;
}

/// In the output, in the tensor's own type; false if nobody had values.
bool DeviceExecutor::mergeRaw(Operation& operation, TaskIndex index) {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  const auto& partition = partitionOf(operation, task);
  DeviceTask& own = operation.device->tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  std::vector<const void*> values;
  const auto payloadOf = [&](MessageIndex message) { return copyOf(operation, message, own, stream); };
  collectRaw(operation, task, payloadOf, values);
  if (values.empty()) return false;
  if (partition.range.count > 0) {
    stream.reduce(tensor.spec.dtype, values, partition.range.count, rawFactor(tensor, task),
                  outputSlice(operation, partition).data());
  }
  return true;
}

/// In float32, every input with its factor; false if nobody had values.
bool DeviceExecutor::mergeEncoded(Operation& operation, TaskIndex index, std::span<float> sum) {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  const auto& partition = partitionOf(operation, task);
  DeviceValues& device = *operation.device;
  DeviceTask& own = device.tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  const size_t decoded = decodedBy(operation, task);
  uint32_t* error = decoded > 0 ? takeWords(device, own, decoded) : nullptr;
  DecodeMode mode = DecodeMode::kAssign;
  for (const Operand& operand : task.from) {
    if (isAbsent(operation, operand)) continue;
    if (operand.kind == Operand::Kind::kInput) {
      stream.add(tensor.spec.dtype, inputSlice(operation, partition).data(),
                 static_cast<float>(tensor.inputFactor), mode, sum);
    } else if (operand.kind == Operand::Kind::kSum) {
      own.held.push_back(std::move(operation.sums[operand.index].values));
      stream.add(DType::kFloat32, own.held.back().data(), 1.0f, mode, sum);
    } else {
      addMessage(operation, index, operand.index, sum, mode, error);
      if (isDecoded(operation, operand)) ++error;
    }
    mode = DecodeMode::kAccumulate;
  }
  if (decoded > 0) copyWords(own, decoded, stream);
  return mode == DecodeMode::kAccumulate;
}

void DeviceExecutor::addMessage(Operation& operation, TaskIndex index, MessageIndex number,
                                std::span<float> sum, DecodeMode mode, uint32_t* error) {
  const Tensor& tensor = *operation.tensor;
  const Task& task = tensor.graph.tasks()[index];
  DeviceTask& own = operation.device->tasks[index];
  DeviceStream& stream = streamOf(operation, task);
  if ((operation.messages[number].header.flags & kFlagRaw) != 0) {
    const auto values = copyOf(operation, number, own, stream);
    return stream.add(tensor.spec.dtype, values.data(), static_cast<float>(tensor.inputFactor), mode, sum);
  }
  DeviceDecode call = decodeOf(operation, task, number, own, stream);
  call.output = sum;
  call.mode = mode;
  call.error = error;
  stream.decode(call);
}

}  // namespace hipress
