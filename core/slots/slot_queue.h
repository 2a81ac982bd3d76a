// SPDX-License-Identifier: Apache-2.0
//
// A stream on which plans put work, and the memory that their work needs in between. The work of a stream
// comes in its order, so all plans that use it share this memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "core/base/time.h"
#include "core/codec/codec.h"
#include "core/device/device.h"

namespace hipress {

/// For one thread at a time.
class SlotQueue {
 public:
  /// `stream`: of the device's own kind, and of a framework; the host has none.
  SlotQueue(std::shared_ptr<Device> device, void* stream)
      : device_(std::move(device)), stream_(device_->makeStreamOn(stream)) {}
  ~SlotQueue();
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  DeviceStream& stream() { return *stream_; }

  // Each of these blocks stays until its next call.
  std::span<float> sum(size_t count) { return floats(0, count); }
  std::span<float> own(size_t count) { return floats(1, count); }
  Bytes message(size_t bytes) { return {block(2, bytes), bytes}; }

  /// Waits until all work on the stream is done. Throws Timeout, or the device's error.
  void wait(Milliseconds limit);

 private:
  struct Block {
    std::shared_ptr<void> memory;
    size_t bytes = 0;
  };

  std::span<float> floats(size_t number, size_t count) {
    return {reinterpret_cast<float*>(block(number, count * sizeof(float))), count};
  }
  std::byte* block(size_t number, size_t bytes);

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<DeviceStream> stream_;
  std::array<Block, 3> blocks_;
};

}  // namespace hipress
