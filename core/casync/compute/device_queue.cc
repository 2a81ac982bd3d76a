// SPDX-License-Identifier: Apache-2.0
#include "core/casync/compute/device_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hipress {
namespace {

/// One stream copies to the device, one computes, one copies back, and a fourth takes over from these.
constexpr size_t kStreams = 4;

}  // namespace

DeviceQueue::DeviceQueue(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      values_(device_->memory()),
      staging_(device_->staging()),
      states_(makeStatePool(device_->memory())) {
  for (size_t stream = 0; stream < kStreams; ++stream) streams_.push_back(device_->makeStream());
}

size_t DeviceQueue::streamIndex(const Tensor& tensor, size_t partition) const {
  return (tensor.id() + partition) % streams_.size();
}

std::vector<DeviceStream*> DeviceQueue::streamsOf(const Tensor& tensor) const {
  std::vector<DeviceStream*> streams;
  for (size_t partition = 0; partition < std::min(streams_.size(), tensor.partitions().size()); ++partition)
    streams.push_back(&streamOf(tensor, partition));  // successive partitions have successive streams
  return streams;
}

DeviceQueue::Statistics DeviceQueue::statistics() const {
  Statistics held{values_.statistics().held, states_->statistics().held, 0, staging_.statistics().held};
  for (const auto& stream : streams_) held.scratch += stream->scratchBytes();
  return held;
}

bool DeviceQueue::close(Milliseconds limit) {
  const auto until = Clock::now() + limit;
  bool done = true;
  for (const auto& stream : streams_) {
    const auto left = std::chrono::duration_cast<Milliseconds>(until - Clock::now());
    done &= stream->close(std::max(left, Milliseconds(0)));
  }
  return done;
}

}  // namespace hipress
