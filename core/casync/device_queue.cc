// SPDX-License-Identifier: Apache-2.0
#include "core/casync/device_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace hipress {

namespace {

/// One copies to the device, one computes, one copies back, and one more to take over.
constexpr size_t kStreams = 4;

}  // namespace

DeviceQueue::DeviceQueue(std::shared_ptr<Device> device)
    : device_(std::move(device)),
      values_(device_->memory()),
      staging_(device_->staging()),
      states_(std::make_shared<StateBlocks>(device_->memory())) {
  for (size_t stream = 0; stream < kStreams; ++stream) streams_.push_back(device_->makeStream());
}

size_t DeviceQueue::streamIndex(const Tensor& tensor, size_t partition) const {
  return (tensor.id + partition) % streams_.size();
}

DeviceQueue::Statistics DeviceQueue::statistics() const {
  Statistics held{values_.statistics().held, states_->bytesHeld(), 0, staging_.statistics().held};
  for (const auto& stream : streams_) held.scratch += stream->scratchBytes();
  return held;
}

bool DeviceQueue::close(Milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  bool done = true;
  for (const auto& stream : streams_) {
    const auto left = std::chrono::duration_cast<Milliseconds>(until - std::chrono::steady_clock::now());
    done &= stream->close(std::max(left, Milliseconds(0)));
  }
  return done;
}

}  // namespace hipress
