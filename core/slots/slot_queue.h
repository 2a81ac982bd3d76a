// SPDX-License-Identifier: Apache-2.0
//
// A stream on which programs put work, and the memory that their work needs in between. The work of a stream
// comes in its order, so all programs that use it share this memory.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

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

  /// Begins work that needs none of the memory so far.
  void begin();
  /// Begins a line of work (DeviceStream::together()). Its memory stays until begin(); if the stream works at
  /// once, until the next line.
  void beginLine();
  // A line gets the same memory at each call.
  std::span<float> sum(size_t count) { return floats(0, count); }
  std::span<float> own(size_t count) { return floats(1, count); }

  /// Waits until all work on the stream is done. Throws Timeout, or the device's error.
  void wait(Milliseconds limit);

 private:
  std::span<float> floats(size_t number, size_t count);

  const std::shared_ptr<Device> device_;
  const std::unique_ptr<DeviceStream> stream_;
  std::array<std::span<float>, 2> own_;        // of the line
  std::vector<std::shared_ptr<void>> blocks_;  // the last one is in use; lines may use the others, too
  size_t most_ = 0;                            // of the last block, in floats
  size_t used_ = 0;
};

}  // namespace hipress
