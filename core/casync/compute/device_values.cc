// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/device_values.h"

#include <utility>

namespace hipress {
namespace {

/// nullptr if no partition is encoded.
std::shared_ptr<const DeviceCodec> codecOn(Device& device, const Tensor& tensor, const CodecPointer& codec) {
  return tensor.compressed() ? device.codec(codec) : nullptr;
}

}  // namespace

void TaskWork::release() {
  words.release();
  results.release();
  lease.reset();
  held.release();
}

DeviceValues::DeviceValues(std::shared_ptr<DeviceQueue> deviceQueue, const Tensor& tensor)
    : queue(std::move(deviceQueue)),
      codec(codecOn(queue->device(), tensor, tensor.codec())),
      aggregateCodec(codecOn(queue->device(), tensor, tensor.aggregateCodec())),
      messages(tensor.graph().messages().size()),
      tasks(tensor.graph().tasks().size()) {}

void DeviceValues::release() {
  scaled.release();
  for (DeviceMessage& message : messages) message.encoded.release();
  for (TaskWork& task : tasks) task.release();
}

}  // namespace hipress
