// SPDX-License-Identifier: Apache-2.0
//
// What a rank computes in an average over a process group, between two of the group's collectives. Tensors
// are cut into partitions, and each partition has an owner. A partition travels in a slot of fixed size, a
// header of the wire format and room for the codec's largest payload, so that ranks never exchange sizes.
//
// The memory of all collectives is the caller's, and is used again in the next step:
//
//   outward   for each other rank, in order, the block of the partitions that this rank owns. First it holds
//             the contributions of this rank for the owners; then the averages that come from the owners.
//   inward    for each other rank a block of the partitions that this rank owns: first their contributions;
//             then, in each block, the same averages. A rank that is alone has one block, too.
//
// Blocks of a topology in which every rank sends everything to every other rank ("whole") have all slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/codec/codec.h"
#include "core/codec/slots/slot_states.h"
#include "core/element/dtype.h"

namespace hipress {

/// A partition of a tensor, and where it travels.
struct Slot {
  std::string name;      ///< Of the tensor, for errors.
  size_t partition = 0;  ///< Its number in the tensor, for errors.
  size_t tensor = 0;     ///< Number of the tensor in the list that each call gets.
  size_t first = 0;      ///< Element of the tensor.
  size_t count = 0;      ///< Elements.
  int owner = 0;
  size_t offset = 0;        ///< Bytes from the begin of its owner's block.
  size_t payloadBytes = 0;  ///< At most.
  bool raw = false;         ///< The payload is the values in float32.
  bool scaled = false;      ///< The values have the average's factor already.
  CodecPointer codec;
  CodecPointer aggregateCodec;  ///< nullptr: only the owner gets the average, which is not encoded.
  uint32_t number = 0;          ///< Of the tensor, for random rounding.
  uint64_t firstElement = 0;    ///< The same: of the slot's first element, in the whole tensor.
  std::string workerKey;        ///< Of the states in a SlotStateTable.
  std::string aggregatorKey;
};

/// The values of a tensor, without gaps.
struct SlotValues {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  size_t count = 0;
};

/// What random rounding depends on.
struct SlotStep {
  uint64_t seed = 0;  ///< Of this rank.
  uint64_t step = 0;
};

/// The slots of some tensors; immutable. Its functions throw InvalidArgument if memory has another size than
/// the plan says, and CorruptPayload with tensor, partition and sender.
class SlotPlan {
 public:
  SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole);

  size_t outwardBytes() const { return outwardBytes_; }
  size_t inwardBytes() const { return inwardBytes_; }
  /// Bytes of the block of a rank's partitions.
  size_t blockBytes(int owner) const { return blockBytes_[static_cast<size_t>(owner)]; }

  /// Writes the contributions of this rank for the others. `changed` gets the states that are new.
  void encode(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, Bytes outward,
              SlotChanges& changed) const;

  /// At the owner: adds the decoded values of all ranks in rank order, in float32, its own ones as they are;
  /// encodes sum times `factor` in place of the contributions; writes the decoded result to its tensors.
  /// Without an aggregator's codec it writes sum times `factor` there.
  void average(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, float factor,
               Bytes inward, SlotChanges& changed) const;

  /// Writes the averages of the other owners to the tensors.
  void decode(std::span<const SlotValues> tensors, ConstBytes outward) const;

  /// With "whole": adds the decoded values of all ranks in rank order, those of this rank from its own
  /// message (the first block of `outward`), and multiplies by `factor`.
  void averageWhole(std::span<const SlotValues> tensors, float factor, ConstBytes outward,
                    ConstBytes inward) const;

 private:
  enum class Purpose : uint8_t { kContribution = 0, kResult = 1 };  // as EncodeAs of the engine

  void checkTensors(std::span<const SlotValues> tensors) const;
  size_t placeOf(int rank) const { return static_cast<size_t>(rank < rank_ ? rank : rank - 1); }
  Bytes inBlock(const Slot& slot, Bytes blocks, size_t block) const;
  ConstBytes contribution(const Slot& slot, ConstBytes inward, int rank) const;
  void encodeInto(const Slot& slot, std::span<const float> values, float factor, Purpose purpose,
                  SlotStateTable& states, SlotStep step, Bytes message, SlotChanges& changed) const;
  void averageEncoded(const Slot& slot, const SlotValues& own, SlotStateTable& states, SlotStep step,
                      float factor, Bytes inward, SlotChanges& changed) const;
  void addInOrder(const Slot& slot, const SlotValues& own, ConstBytes inward, std::span<float> sum) const;
  void averageRaw(const Slot& slot, const SlotValues& own, float factor, Bytes inward) const;

  std::vector<Slot> slots_;
  int rank_;
  int world_;
  bool whole_;
  std::vector<size_t> blockBytes_;     ///< By owner.
  std::vector<size_t> outwardStarts_;  ///< By owner; not of this rank.
  size_t outwardBytes_ = 0;
  size_t inwardBytes_ = 0;
  size_t tensors_ = 0;
};

}  // namespace hipress
