// SPDX-License-Identifier: Apache-2.0
//
// SlotChanges (codec/slots/slot_changes.h) on a device. The device finds the verdict on a step in a word of
// its memory, and puts states back by it; the host does not wait for the verdict and does not learn it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/codec/slots/slot_blocks.h"
#include "core/codec/slots/slot_changes.h"
#include "core/device/device.h"

namespace hipress {

/// Whether a finite float32 may become infinite in this type.
inline bool narrows(DType dtype) {
  return dtype != DType::kFloat32 && dtype != DType::kFloat64;
}

class DeviceSlotChanges {
 public:
  DeviceSlotChanges(std::shared_ptr<Device> device, bool keepsStates);

  bool keepsStates() const { return keepsStates_; }
  /// On the device: not 0 if an average of the step is not finite.
  uint32_t* verdict() const;
  /// The verdict's memory stays as long as this does.
  std::shared_ptr<const void> memory() const { return shared_; }

  /// An encode exchanges the states of this key. `absent`: a word on the device that is not 0 in the end if
  /// no rank has a gradient for the states' elements. `owner` keeps the word's memory.
  void add(const std::string& key, std::shared_ptr<SlotStates> states, const uint32_t* absent,
           std::shared_ptr<const void> owner);
  /// The host knows that the step does not count: it failed.
  void discard();
  /// Looks whether an average is finite.
  void look(DeviceStream& stream, const SlotValues& average) const;
  /// Copies the verdict so far to 4 bytes.
  void writeVerdict(DeviceStream& stream, std::byte* to) const;
  /// The step does not count if one of `number` verdicts, each `stride` bytes behind the other, says so.
  void readVerdicts(DeviceStream& stream, std::byte* first, size_t stride, size_t number) const;
  /// As SlotChanges::settle(). The work on the states before and after is on the stream before and after
  /// this.
  void settle(DeviceStream& stream);

 private:
  struct Shared;

  const bool keepsStates_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace hipress
