// SPDX-License-Identifier: Apache-2.0
//
// The values that the tasks of one operation share on a device, and the memory that a task holds until its
// stream is done with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/device_queue.h"
#include "core/casync/graph/tensor.h"
#include "core/codec/state/state_store.h"

namespace hipress {

/// Buffers that return to the pool together. The first two need no memory for the list itself.
class HeldBuffers {
 public:
  const BufferPool::Buffer& add(BufferPool::Buffer buffer) {
    if (count_ < first_.size()) return first_[count_++] = std::move(buffer);
    return more_.emplace_back(std::move(buffer));
  }
  void release() {
    while (count_ > 0) first_[--count_].release();
    more_.clear();
  }

 private:
  std::array<BufferPool::Buffer, 2> first_;
  size_t count_ = 0;
  std::vector<BufferPool::Buffer> more_;
};

/// The memory of a task until its stream is done.
struct TaskWork {
  BufferPool::Buffer words;    ///< on a device, which writes sizes and error numbers there
  BufferPool::Buffer results;  ///< the copy of `words` that the host reads
  size_t encodedBytes = 0;     ///< on the host: the size of the message that an encode made
  std::optional<StateLease> lease;
  HeldBuffers held;  ///< memory that the task reads and no later task needs

  void release();
};

struct DeviceMessage {
  std::span<const std::byte> elements;  ///< a raw message of this rank: its elements on the device
  BufferPool::Buffer encoded;
  const uint32_t* encodedBytes = nullptr;  ///< on the device
};

struct DeviceValues {
  DeviceValues(std::shared_ptr<DeviceQueue> deviceQueue, const Tensor& tensor);

  /// Called when all tasks are done.
  void release();

  const std::shared_ptr<DeviceQueue> queue;  // outlives all buffers
  const std::shared_ptr<const DeviceCodec> codec;
  const std::shared_ptr<const DeviceCodec> aggregateCodec;
  BufferPool::Buffer scaled;  // the input times Tensor::ownFactor, if that is not 1
  std::vector<DeviceMessage> messages;
  std::vector<TaskWork> tasks;
};

}  // namespace hipress
