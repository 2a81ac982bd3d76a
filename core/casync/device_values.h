// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of one operation leave on a device for each other, and what they hold until it is done with
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/casync/buffer_pool.h"
#include "core/casync/device_queue.h"
#include "core/casync/tensor.h"
#include "core/codec/state_store.h"

namespace hipress {

struct DeviceMessage {
  bool received = false;                ///< From another rank: its payload lies in staging.
  bool sent = false;                    ///< To some: it has to.
  std::span<const std::byte> elements;  ///< If it is raw and this rank's: where they are on the device.
  BufferPool::Buffer encoded;
  const uint32_t* encodedBytes = nullptr;  ///< On the device.
};

struct DeviceTask {
  BufferPool::Buffer words;    ///< Numbers that the device writes: sizes and errors,
  BufferPool::Buffer results;  ///< and where the host reads them.
  std::optional<StateLease> lease;
  std::vector<BufferPool::Buffer> held;  ///< What it reads and nobody needs afterwards.
};

struct DeviceValues {
  DeviceValues(std::shared_ptr<DeviceQueue> deviceQueue, const Tensor& tensor);

  /// When all tasks are done.
  void release();

  const std::shared_ptr<DeviceQueue> queue;  // outlives all buffers
  const std::shared_ptr<const DeviceCodec> codec;
  const std::shared_ptr<const DeviceCodec> aggregateCodec;
  std::vector<DeviceMessage> messages;
  std::vector<DeviceTask> tasks;
};

}  // namespace hipress
