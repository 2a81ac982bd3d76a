// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank in an average over a process group, between two of the group's collectives, on a
// device, which may be the host. Each call puts its work on a stream and returns; neither the host nor the
// stream waits for the other. The device writes the headers of messages and checks those that come. Where it
// refuses a message, the average is zeros, on all ranks if an owner has refused a contribution, and all ranks
// tell the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/slots/slot_blocks.h"
#include "core/slots/slot_changes.h"
#include "core/slots/slot_queue.h"

namespace hipress {

/// A slot's bytes are a multiple of this, so that the elements of the next one are aligned.
inline constexpr size_t kSlotAlignment = 16;

/// The pointers in `tensors` and the blocks are the device's. A plan works on one step at a time. The calls
/// throw InvalidArgument if memory has another size than the slots need.
class SlotPlan {
 public:
  /// Throws Unsupported if the device has no code for a codec; InvalidArgument.
  SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole, std::shared_ptr<Device> device);

  const SlotBlocks& blocks() const;

  /// Clears blocks that no step has used yet: padding travels, too, and zeros hide the memory's earlier
  /// content.
  void prepare(DeviceStream& stream, Bytes outward, Bytes inward);

  /// Encodes the contributions of this rank, times the codec's gradientFactor(), for the other ranks. Those
  /// of raw slots are the values as they are.
  void encode(SlotQueue& queue, std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
              Bytes outward, SlotChanges& changed);

  /// The work of an owner. Adds the decoded values of all ranks in rank order, in float32, with its own
  /// values, times the codec's gradientFactor(), unencoded, unless the codec merges decoded values only.
  /// Encodes sum times `factor` in place of the contributions. Writes the decoded result to its tensors;
  /// without an aggregator's codec, sum times `factor`. Values of raw slots are added and multiplied as
  /// reduceInOrder() does, so in their own type.
  void average(SlotQueue& queue, std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step,
               double factor, Bytes inward, SlotChanges& changed);

  /// Decodes the averages of the other owners into the tensors.
  void decode(SlotQueue& queue, std::span<const SlotValues> tensors, ConstBytes outward,
              SlotChanges& changed);

  /// For "whole": adds the decoded values of all ranks in rank order, with this rank's from its own message
  /// (the first block of `outward`), and multiplies by `factor`.
  void averageWhole(SlotQueue& queue, std::span<const SlotValues> tensors, double factor, ConstBytes outward,
                    ConstBytes inward, SlotChanges& changed);

  /// The end of a step: asks the stream for the errors that the device has found.
  void check(DeviceStream& stream, const SlotChanges& changed);
  /// Throws the first error of the work that has been checked: CorruptPayload with tensor, partition and
  /// sender, or the device's own. It does not wait.
  void raise() const;

 private:
  struct Shared;

  const DeviceCodec& functions(const CodecPointer& codec) const;
  bool isOwn(const Slot& slot) const { return !blocks().whole() && slot.owner == blocks().rank(); }

  void findZeros(DeviceStream& stream, std::span<const SlotValues> tensors, const SlotChanges& changed);
  SlotSeal sealOf(size_t number, std::byte* header, SlotPurpose purpose) const;
  SlotCheck checkOf(size_t number, ConstBytes message, int sender) const;
  /// Checks all messages that other ranks contribute.
  void checkContributions(DeviceStream& stream, ConstBytes inward, const SlotChanges& changed);
  /// Looks whether averages are finite, where asks(slot, dtype) says so.
  void lookAt(DeviceStream& stream, std::span<const SlotValues> tensors, const SlotChanges& changed,
              const std::function<bool(const Slot&, DType)>& asks);
  /// Of an average that is in the tensor: zeros if `word` is not 0 by then.
  SlotSpan spanOf(size_t number, const SlotValues& values, uint32_t* word) const;

  void encodeInto(SlotQueue& queue, size_t number, std::span<const float> values, float factor,
                  SlotPurpose purpose, SlotStateTable& states, SlotStep step, Bytes message,
                  SlotChanges& changed);
  void decodeTo(SlotQueue& queue, size_t number, const DeviceContribution& one, const SlotValues& values);
  DeviceContribution messageOf(size_t number, ConstBytes message, int sender) const;
  /// A message of this rank that has no header yet.
  DeviceContribution unsealed(size_t number, ConstBytes message, SlotPurpose purpose) const;
  /// All ranks' contributions to a slot of this rank, in rank order.
  std::vector<DeviceContribution> contributionsTo(SlotQueue& queue, size_t number, const SlotValues& own,
                                                  SlotStateTable& states, SlotStep step, ConstBytes inward,
                                                  SlotChanges& changed);
  void sum(SlotQueue& queue, size_t number, std::span<const DeviceContribution> contributions, float factor,
           std::span<float> output);
  /// The same sum, into a tensor of any type.
  void sumTo(SlotQueue& queue, size_t number, std::span<const DeviceContribution> contributions, float factor,
             const SlotValues& values);
  const std::shared_ptr<Shared> shared_;  // work on the stream uses it after the plan has ended
};

}  // namespace hipress
