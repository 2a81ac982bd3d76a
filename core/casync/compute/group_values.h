// SPDX-License-Identifier: Apache-2.0
//
// The values of a group's members in a row, in the memory of the members' device or on the host.
#pragma once

#include <memory>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/device_queue.h"
#include "core/casync/compute/step_values.h"
#include "core/casync/graph/partition.h"
#include "core/device/host_stream.h"

namespace hipress {

class GroupValues {
 public:
  /// `device` nullptr: on the host, and `pool` serves them. The values live as long as this object.
  GroupValues(BufferPool& pool, std::shared_ptr<DeviceQueue> device, size_t bytes)
      : device_(std::move(device)), buffer_((device_ == nullptr ? pool : device_->values()).take(bytes)) {}

  std::byte* data() const { return buffer_.data(); }

  /// Copies a member's values to `bytes` of the group, or zeros if the member has none. Calls `done` after
  /// the copy, or with the failure of the device.
  void copyIn(const StepValues& member, size_t index, Partition bytes, EndCallback done) {
    DeviceStream& stream = streamOf(index);
    const std::span<std::byte> place(data() + bytes.first, bytes.count);
    if (member.ready != nullptr) stream.waitFor(member.ready);
    if (member.input != nullptr) {
      stream.copy(place.data(), {member.input, bytes.count});
    } else {
      stream.fillZeros(place);
    }
    stream.whenDone(std::move(done));
  }

  /// Copies `bytes` of the group to a member's output.
  void copyOut(const StepValues& member, size_t index, Partition bytes, EndCallback done) {
    DeviceStream& stream = streamOf(index);
    stream.copy(member.output, {data() + bytes.first, bytes.count});
    stream.whenDone(std::move(done));
  }

 private:
  /// Successive members have successive streams.
  DeviceStream& streamOf(size_t member) { return device_ == nullptr ? host_ : device_->stream(member); }

  const std::shared_ptr<DeviceQueue> device_;  // outlives the buffer
  HostStream host_;
  BufferPool::Buffer buffer_;
};

}  // namespace hipress
