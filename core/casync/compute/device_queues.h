// SPDX-License-Identifier: Apache-2.0
//
// The queues of the devices on which tensors are.
#pragma once

#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/compute/device_queue.h"
#include "core/casync/graph/tensor.h"

namespace hipress {

class DeviceQueues {
 public:
  /// nullptr for the host's. Throws Unsupported if the device cannot compute what the tensor needs.
  std::shared_ptr<DeviceQueue> queueFor(const Tensor& tensor);
  /// Of all devices together.
  DeviceQueue::Statistics statistics() const;
  /// When no thread puts more work on a stream. Work that a device does not finish keeps its operations.
  void close();

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<DeviceQueue>> queues_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
