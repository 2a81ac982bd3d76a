// SPDX-License-Identifier: Apache-2.0
//
// A tensor whose encoded values a process group adds, on a device, which may be the host
// (codec/summed_step.h). Each call puts its work on a stream and returns. The device decides whether new
// states are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/device/device.h"
#include "core/slots/program/slot.h"
#include "core/slots/slot_changes.h"

namespace hipress {

/// The three calls of a step come in their order, each after the work of the call before, and before the next
/// step. Pointers are the device's.
class SummedTensor {
 public:
  /// `number`: for random rounding. Throws Unsupported if the device has no code for the codec.
  SummedTensor(std::string name, CodecPointer codec, size_t count, uint32_t number,
               std::shared_ptr<Device> device);

  /// `gradient`: a value that is 0, and becomes one that stays another value in the ranks' combination if
  /// this rank has a gradient.
  void makeStatistics(DeviceStream& stream, const SlotValues& values, SlotStateTable& table,
                      const std::string& key, SlotStep step, std::span<float> statistics, float* gradient);
  void makeLevels(DeviceStream& stream, std::span<float> agreed, Bytes levels);
  /// Writes the sum times `factor` into the tensor, and the new states. `gradient`: as the ranks have
  /// combined it.
  void finish(DeviceStream& stream, const SlotValues& values, double factor, std::span<float> agreed,
              const float* gradient, Bytes levels, SlotChanges& changed);
  /// Throws the first error of work that has ended. It does not wait.
  void raise() const;

 private:
  struct Shared;

  void checkRoom(std::span<const float> statistics, Bytes levels) const;

  const std::shared_ptr<Shared> shared_;  // work on the stream uses it after this has ended
};

}  // namespace hipress
