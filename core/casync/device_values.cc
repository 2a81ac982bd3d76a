// SPDX-License-Identifier: Apache-2.0
#include "core/casync/device_values.h"

#include <utility>

namespace hipress {

namespace {

/// nullptr if nothing is encoded with it.
std::shared_ptr<const DeviceCodec> codecOn(Device& device, const Tensor& tensor, const CodecPointer& codec) {
  return tensor.compressed() ? device.codec(codec) : nullptr;
}

}  // namespace

DeviceValues::DeviceValues(std::shared_ptr<DeviceQueue> deviceQueue, const Tensor& tensor)
    : queue(std::move(deviceQueue)),
      codec(codecOn(queue->device(), tensor, tensor.codec)),
      aggregateCodec(codecOn(queue->device(), tensor, tensor.aggregateCodec)),
      messages(tensor.graph.messages().size()),
      tasks(tensor.graph.tasks().size()) {
  for (const Task& task : tensor.graph.tasks()) {
    if (task.primitive == Primitive::kRecv) messages[task.message].received = true;
    if (task.primitive == Primitive::kSend) messages[task.message].sent = true;
  }
}

void DeviceValues::release() {
  for (DeviceMessage& message : messages) message.encoded.release();
  for (DeviceTask& task : tasks) {
    task.words.release();
    task.results.release();
    task.lease.reset();
    task.held.clear();
  }
}

}  // namespace hipress
