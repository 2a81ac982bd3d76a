// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank in an average over a process group, between two of the group's collectives, on
// the processor. device/slots has the same for GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/codec/slots/slot_blocks.h"
#include "core/codec/slots/slot_changes.h"
#include "core/codec/slots/slot_states.h"

namespace hipress {

/// The slots of some tensors; immutable. The functions throw InvalidArgument if memory has a size other than
/// the plan's, and CorruptPayload with tensor, partition and sender.
class SlotPlan {
 public:
  SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole)
      : blocks_(std::move(slots), rank, world, whole) {}

  const SlotBlocks& blocks() const { return blocks_; }

  // `changed` learns of the states that change, of averages that are not finite, and of slots for which no
  // rank has a gradient: their averages are zeros, and states stay as they are.

  /// Encodes the contributions of this rank, times the codec's gradientFactor(), for the other ranks. Those
  /// of raw slots are the values as they are.
  void encode(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, Bytes outward,
              SlotChanges& changed) const;

  /// The work of an owner. Adds the decoded values of all ranks in rank order, in float32, with its own
  /// values, times the codec's gradientFactor(), unencoded, unless the codec merges decoded values only.
  /// Encodes sum times `factor` in place of the contributions. Writes the decoded result to its tensors;
  /// without an aggregator's codec, sum times `factor`. Values of raw slots are added and multiplied as
  /// reduceInOrder() does, so in their own type.
  void average(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, double factor,
               Bytes inward, SlotChanges& changed) const;

  /// Decodes the averages of the other owners into the tensors.
  void decode(std::span<const SlotValues> tensors, ConstBytes outward, SlotChanges& changed) const;

  /// For "whole": adds the decoded values of all ranks in rank order, with this rank's from its own message
  /// (the first block of `outward`), and multiplies by `factor`.
  void averageWhole(std::span<const SlotValues> tensors, double factor, ConstBytes outward, ConstBytes inward,
                    SlotChanges& changed) const;

 private:
  void encodeInto(const Slot& slot, std::span<const float> values, float factor, SlotPurpose purpose,
                  SlotStateTable& states, SlotStep step, Bytes message, SlotChanges& changed) const;
  /// Whether neither this rank nor another one has a gradient for the slot of this rank.
  bool isAbsent(const Slot& slot, const SlotValues& own, ConstBytes inward) const;
  void averageEncoded(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                      float factor, Bytes inward, SlotChanges& changed) const;
  void addInOrder(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                  ConstBytes inward, std::span<float> sum, SlotChanges& changed) const;
  /// Into `own`.
  void averageRaw(const Slot& slot, const SlotValues& own, double factor, ConstBytes inward) const;

  const SlotBlocks blocks_;
};

}  // namespace hipress
