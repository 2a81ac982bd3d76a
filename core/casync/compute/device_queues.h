// SPDX-License-Identifier: Apache-2.0
//
// The queues of all devices that have tensors.
#pragma once

#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "core/casync/compute/device_queue.h"
#include "core/casync/graph/tensor.h"

namespace hipress {

class DeviceQueues {
 public:
  /// nullptr for a tensor on the host. Throws Unsupported if the device cannot compute for the tensor.
  std::shared_ptr<DeviceQueue> queueFor(const Tensor& tensor);
  /// The sum over all devices.
  DeviceQueue::Statistics statistics() const;
  /// No thread may submit more work. Work that a device does not finish keeps its operations alive.
  void close();

 private:
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<DeviceQueue>> queues_ HIPRESS_GUARDED_BY(mutex_);
};

}  // namespace hipress
