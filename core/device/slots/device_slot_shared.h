// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>

#include "core/base/error.h"
#include "core/device/slots/device_slot_plan.h"
#include "core/device/slots/device_slot_words.h"

namespace hipress {

/// What work on a stream uses: the slots, their codecs, memory of the device and of staging, and the errors.
struct DeviceSlotPlan::Shared {
  Shared(SlotBlocks travelling, std::shared_ptr<Device> owner);
  ~Shared();
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  void fail(const Error& error) {
    const std::lock_guard lock(mutex);
    if (failure == nullptr) failure = failureOf(error);
  }
  /// Fails with the first error that the device has told.
  void readWords() {
    try {
      words->raise(blocks, functions);
    } catch (const Error& error) {
      fail(error);
    }
  }
  /// Memory for the floats of any slot. A model may have many plans, and most need one block or none.
  float* floatsIn(float*& block);

  const SlotBlocks blocks;
  const std::shared_ptr<Device> device;
  DeviceSlotWords::Functions functions;
  bool keepsStates = false;
  std::unique_ptr<const DeviceSlotWords> words;
  float* sum = nullptr;          ///< One slot's sum; nullptr: no step has needed it yet.
  float* own = nullptr;          ///< One slot's own values in float32; nullptr as well.
  std::byte* encoded = nullptr;  ///< One slot's own message; nullptr: no codec of the plan merges it.
  mutable std::mutex mutex;
  Failure failure;
};

/// Where a slot's elements are in its tensor.
inline std::byte* elementsOnDevice(const Slot& slot, const SlotValues& values) {
  return values.data + slot.first * elementSize(values.dtype);
}

}  // namespace hipress
