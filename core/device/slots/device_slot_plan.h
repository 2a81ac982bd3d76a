// SPDX-License-Identifier: Apache-2.0
//
// SlotPlan (codec/slots/slot_plan.h) on a device: the same messages, averages and states, by the same calls.
// Each call puts its work on a stream and returns; neither the host nor the stream waits for the other. The
// device writes the headers of messages and checks those that come. Where it refuses a message, the average
// is zeros, on all ranks if an owner has refused a contribution, and the plan's ranks tell the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/codec/slots/slot_blocks.h"
#include "core/device/device.h"
#include "core/device/slots/device_slot_changes.h"

namespace hipress {

/// A slot's bytes on a device are a multiple of this, so that the elements of the next one are aligned.
inline constexpr size_t kDeviceSlotAlignment = 16;

/// The pointers in `tensors` and the blocks are the device's. All calls of a plan go to one stream at a time.
class DeviceSlotPlan {
 public:
  /// Throws Unsupported if the device has no code for a codec; InvalidArgument.
  DeviceSlotPlan(std::vector<Slot> slots, int rank, int world, bool whole, std::shared_ptr<Device> device);

  const SlotBlocks& blocks() const;

  /// Clears blocks that no step has used yet: padding travels, too, and zeros hide the memory's earlier
  /// content.
  void prepare(DeviceStream& stream, Bytes outward, Bytes inward);

  void encode(DeviceStream& stream, std::span<const SlotValues> tensors, SlotStateTable& states,
              SlotStep step, Bytes outward, DeviceSlotChanges& changed);
  void average(DeviceStream& stream, std::span<const SlotValues> tensors, SlotStateTable& states,
               SlotStep step, double factor, Bytes inward, DeviceSlotChanges& changed);
  void decode(DeviceStream& stream, std::span<const SlotValues> tensors, ConstBytes outward,
              DeviceSlotChanges& changed);
  void averageWhole(DeviceStream& stream, std::span<const SlotValues> tensors, double factor,
                    ConstBytes outward, ConstBytes inward, DeviceSlotChanges& changed);

  /// Asks the stream for the errors that the device has found in the work up to here.
  void check(DeviceStream& stream, const DeviceSlotChanges& changed);
  /// Throws the first error of the work that has been checked: CorruptPayload with tensor, partition and
  /// sender, or the device's own. It does not wait.
  void raise() const;

 private:
  struct Shared;

  std::span<float> sumOf(const Slot& slot) const;
  const DeviceCodec& functions(const CodecPointer& codec) const;
  bool isOwn(const Slot& slot) const { return !blocks().whole() && slot.owner == blocks().rank(); }

  void findZeros(DeviceStream& stream, std::span<const SlotValues> tensors, const DeviceSlotChanges& changed);
  SlotSeal sealOf(size_t number, std::byte* header, SlotPurpose purpose) const;
  SlotCheck checkOf(size_t number, ConstBytes message, int sender) const;
  /// Checks all messages that other ranks contribute.
  void checkContributions(DeviceStream& stream, ConstBytes inward, const DeviceSlotChanges& changed);
  /// Looks whether averages are finite, where asks(slot, dtype) says so.
  void lookAt(DeviceStream& stream, std::span<const SlotValues> tensors, const DeviceSlotChanges& changed,
              const std::function<bool(const Slot&, DType)>& asks);
  /// Of an average that is in the tensor: zeros if `word` is not 0 by then.
  SlotSpan spanOf(size_t number, const SlotValues& values, uint32_t* word) const;

  void encodeInto(DeviceStream& stream, size_t number, std::span<const float> values, float factor,
                  SlotPurpose purpose, SlotStateTable& states, SlotStep step, Bytes message,
                  DeviceSlotChanges& changed);
  void decodeTo(DeviceStream& stream, size_t number, const DeviceContribution& one, const SlotValues& values);
  DeviceContribution messageOf(size_t number, ConstBytes message, int sender) const;
  /// A message of this rank that has no header yet.
  DeviceContribution unsealed(size_t number, ConstBytes message, SlotPurpose purpose) const;
  /// All ranks' contributions to a slot of this rank, in rank order.
  std::vector<DeviceContribution> contributionsTo(DeviceStream& stream, size_t number, const SlotValues& own,
                                                  SlotStateTable& states, SlotStep step, ConstBytes inward,
                                                  DeviceSlotChanges& changed);
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
