// SPDX-License-Identifier: Apache-2.0
//
// The states that the averages of one step change, and whether the step counts. A loss scaler discards a step
// with an average that is not finite, on all ranks; then all states have to be what they were before the
// step, also on ranks and of tensors whose values were finite. The results tell: all ranks get the same ones,
// so all come to the same verdict. The device finds it in a word of its memory and puts states back by it, so
// nobody waits for a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/slots/program/slot.h"
#include "core/slots/slot_states.h"

namespace hipress {

/// Whether a finite float32 may become infinite in this type.
inline bool narrows(DType dtype) {
  return dtype != DType::kFloat32 && dtype != DType::kFloat64;
}

/// Thread-safe. Averages of a step note here what they change; settle() comes between the last use of states
/// in one step and the first use in the next one.
class SlotChanges {
 public:
  /// `keepsStates`: whether any tensor of the average has a codec with states. Otherwise nobody looks whether
  /// averages are finite.
  SlotChanges(std::shared_ptr<Device> device, bool keepsStates);

  bool keepsStates() const { return keepsStates_; }
  /// On the device: not 0 if an average of the step is not finite.
  uint32_t* verdict() const;
  /// The verdict's memory stays as long as this does.
  std::shared_ptr<const void> memory() const { return shared_; }

  /// Whether a refused average is NaN, so that a loss scaler leaves the step out, too; otherwise it is zeros,
  /// as integers always are. It holds for work that is put on streams from now on.
  bool nanIfRefused() const;
  void setNanIfRefused(bool nan);

  /// An encode exchanges the states of this key. `absent`: a word on the device that is not 0 in the end if
  /// no rank has a gradient for the states' elements. `owner` keeps the word's memory.
  void add(const std::string& key, std::shared_ptr<SlotStates> states, const uint32_t* absent,
           std::shared_ptr<const void> owner);
  /// The host knows that the step does not count: it failed.
  void discard();
  /// Looks whether an average is finite.
  void look(DeviceStream& stream, const SlotValues& average) const;
  /// Writes a float that is not 0 if the step does not count so far.
  void writeVerdict(DeviceStream& stream, std::byte* to) const;
  /// Ends the step: if it does not count, all states become what they were before it. The work on the states
  /// before and after is on the stream before and after this. Returns whether the host knows that the step
  /// does not count.
  bool settle(DeviceStream& stream);

 private:
  struct Shared;

  const bool keepsStates_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace hipress
