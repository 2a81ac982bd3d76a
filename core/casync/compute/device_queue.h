// SPDX-License-Identifier: Apache-2.0
//
// The Q_comp of a device: its streams, and the device memory of tasks. All tasks of a partition go to one
// stream, which keeps their order. Tasks of different partitions overlap: one copies while another computes.
#pragma once

#include <memory>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/graph/tensor.h"
#include "core/codec/state/state_store.h"
#include "core/device/device.h"

namespace hipress {

class DeviceQueue {
 public:
  explicit DeviceQueue(std::shared_ptr<Device> device);
  DeviceQueue(const DeviceQueue&) = delete;
  DeviceQueue& operator=(const DeviceQueue&) = delete;

  Device& device() const { return *device_; }
  size_t streamIndex(const Tensor& tensor, size_t partition) const;
  /// The streams of the tensor's partitions, each once.
  std::vector<DeviceStream*> streamsOf(const Tensor& tensor) const;
  DeviceStream& streamOf(const Tensor& tensor, size_t partition) const {
    return *streams_[streamIndex(tensor, partition)];
  }

  DeviceStream& stream(size_t number) const { return *streams_[number % streams_.size()]; }

  BufferPool& values() { return values_; }    ///< in the device's memory
  BufferPool& staging() { return staging_; }  ///< in the host's memory
  const std::shared_ptr<BufferPool>& states() const { return states_; }

  /// Bytes of device memory, and for `staging` of host memory.
  struct Statistics {
    size_t values = 0;
    size_t states = 0;
    size_t scratch = 0;
    size_t staging = 0;
  };
  Statistics statistics() const;

  /// Waits, for `limit` in all, until the streams are done. Returns false if one is not.
  bool close(Milliseconds limit);

 private:
  const std::shared_ptr<Device> device_;
  BufferPool values_;
  BufferPool staging_;
  const std::shared_ptr<BufferPool> states_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
};

}  // namespace hipress
