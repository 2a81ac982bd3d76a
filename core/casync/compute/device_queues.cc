// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/device_queues.h"

namespace hipress {
namespace {

/// How long a shutdown waits for a device. Work in flight takes much less time, and a device that hangs would
/// take for ever.
constexpr Milliseconds kDrain{10000};

}  // namespace

std::shared_ptr<DeviceQueue> DeviceQueues::queueFor(const Tensor& tensor) {
  const auto& device = tensor.spec().device;
  if (device == nullptr) return nullptr;
  if (tensor.compressed()) {
    device->codec(tensor.codec());
    device->codec(tensor.aggregateCodec());
  }
  const MutexLock lock(mutex_);
  for (const auto& queue : queues_) {
    if (&queue->device() == device.get()) return queue;
  }
  queues_.push_back(std::make_shared<DeviceQueue>(device));
  return queues_.back();
}

DeviceQueue::Statistics DeviceQueues::statistics() const {
  DeviceQueue::Statistics all;
  const MutexLock lock(mutex_);
  for (const auto& queue : queues_) {
    const DeviceQueue::Statistics one = queue->statistics();
    all.values += one.values;
    all.states += one.states;
    all.scratch += one.scratch;
    all.staging += one.staging;
  }
  return all;
}

void DeviceQueues::close() {
  std::vector<std::shared_ptr<DeviceQueue>> queues;
  {
    const MutexLock lock(mutex_);
    queues.swap(queues_);
  }
  for (const auto& queue : queues) queue->close(kDrain);
}

}  // namespace hipress
