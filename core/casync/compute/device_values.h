// SPDX-License-Identifier: Apache-2.0
//
// Values that the tasks of one operation leave on a device for each other, and the memory that a task holds
// until its stream is done with it.
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

/// Buffers that are given back together. The first ones need no memory for the list itself.
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

/// A task's memory until its stream is done.
struct TaskWork {
  BufferPool::Buffer words;    ///< On a device, which writes sizes and error numbers there,
  BufferPool::Buffer results;  ///< and the copy in which the host reads them.
  size_t encodedBytes = 0;     ///< On the host: the size of the message that an encode made.
  std::optional<StateLease> lease;
  HeldBuffers held;  ///< Memory that the task reads and no later task needs.

  void release();
};

struct DeviceMessage {
  std::span<const std::byte> elements;  ///< Of a raw message of this rank: where they are on the device.
  BufferPool::Buffer encoded;
  const uint32_t* encodedBytes = nullptr;  ///< On the device.
};

struct DeviceValues {
  DeviceValues(std::shared_ptr<DeviceQueue> deviceQueue, const Tensor& tensor);

  /// When all tasks are done.
  void release();

  const std::shared_ptr<DeviceQueue> queue;  // outlives all buffers
  const std::shared_ptr<const DeviceCodec> codec;
  const std::shared_ptr<const DeviceCodec> aggregateCodec;
  BufferPool::Buffer scaled;  // the input, if Tensor::ownFactor has changed it
  std::vector<DeviceMessage> messages;
  std::vector<TaskWork> tasks;
};

}  // namespace hipress
