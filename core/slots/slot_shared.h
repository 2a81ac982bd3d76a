// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>

#include "core/base/error.h"
#include "core/slots/slot_plan.h"
#include "core/slots/slot_words.h"

namespace hipress {

/// What work on a stream uses: the slots, their codecs, and the errors.
struct SlotPlan::Shared {
  Shared(SlotBlocks travelling, std::shared_ptr<Device> owner);

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
  const SlotBlocks blocks;
  const std::shared_ptr<Device> device;
  SlotWords::Functions functions;
  bool keepsStates = false;
  std::unique_ptr<const SlotWords> words;
  mutable std::mutex mutex;
  Failure failure;
};

/// Where a slot's elements are in its tensor.
inline std::byte* elementsOnDevice(const Slot& slot, const SlotValues& values) {
  return values.data + slot.first * elementSize(values.dtype);
}

}  // namespace hipress
