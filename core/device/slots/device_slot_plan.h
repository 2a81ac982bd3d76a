// SPDX-License-Identifier: Apache-2.0
//
// SlotPlan (codec/slots/slot_plan.h) on a device: the same messages, averages and states, by the same calls.
// Each call puts its work on a stream and returns; neither the host nor the stream waits for the other. The
// device writes the length of a payload into the message's header, so the receiving device finds it there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/codec/slots/slot_blocks.h"
#include "core/codec/slots/slot_states.h"
#include "core/device/device.h"

namespace hipress {

/// A slot's bytes on a device are a multiple of this, so that the elements of the next one are aligned.
inline constexpr size_t kDeviceSlotAlignment = 16;

/// The pointers in `tensors` and the blocks are the device's. All calls of a plan go to one stream at a time.
class DeviceSlotPlan {
 public:
  /// Throws Unsupported if the device has no code for a codec; InvalidArgument.
  DeviceSlotPlan(std::vector<Slot> slots, int rank, int world, bool whole, std::shared_ptr<Device> device);

  const SlotBlocks& blocks() const;

  /// Writes the headers of all messages into blocks that no step has used yet.
  void prepare(DeviceStream& stream, Bytes outward, Bytes inward);

  void encode(DeviceStream& stream, std::span<const SlotValues> tensors, SlotStateTable& states,
              SlotStep step, Bytes outward, SlotChanges& changed);
  void average(DeviceStream& stream, std::span<const SlotValues> tensors, SlotStateTable& states,
               SlotStep step, double factor, Bytes inward, SlotChanges& changed);
  void decode(DeviceStream& stream, std::span<const SlotValues> tensors, ConstBytes outward);
  void averageWhole(DeviceStream& stream, std::span<const SlotValues> tensors, double factor,
                    ConstBytes outward, ConstBytes inward);

  /// Asks the stream for the errors that the device has found in the work up to here.
  void check(DeviceStream& stream);
  /// Throws the first error of the work that has been checked: CorruptPayload with tensor, partition and
  /// sender, or the device's own. It does not wait.
  void raise() const;

 private:
  struct Shared;

  uint32_t* word(size_t slot, size_t number) const;
  std::span<float> sumOf(const Slot& slot) const;
  const DeviceCodec& functions(const CodecPointer& codec) const;

  void encodeInto(DeviceStream& stream, size_t number, std::span<const float> values, float factor,
                  SlotPurpose purpose, SlotStateTable& states, SlotStep step, Bytes message,
                  SlotChanges& changed);
  void read(DeviceStream& stream, size_t number, ConstBytes message, int sender, std::span<float> output);
  void readTo(DeviceStream& stream, size_t number, ConstBytes message, int sender, const SlotValues& values);
  DeviceContribution messageOf(size_t number, ConstBytes message, int sender) const;
  /// All ranks' contributions to a slot of this rank, in rank order.
  std::vector<DeviceContribution> contributionsTo(DeviceStream& stream, size_t number, const SlotValues& own,
                                                  SlotStateTable& states, SlotStep step, ConstBytes inward,
                                                  SlotChanges& changed);
  void sum(DeviceStream& stream, size_t number, std::span<const DeviceContribution> contributions,
           float factor, std::span<float> output);
  /// The same sum, into a tensor of any type.
  void sumTo(DeviceStream& stream, size_t number, std::span<const DeviceContribution> contributions,
             float factor, const SlotValues& values);
  /// The slot's values times `factor`, in float32. Unless the tensor has these values, they are in memory of
  /// the plan.
  std::span<const float> times(DeviceStream& stream, float factor, const Slot& slot, const SlotValues& own);

  const std::shared_ptr<Shared> shared_;  // work on the stream uses it after the plan has ended
};

}  // namespace hipress
