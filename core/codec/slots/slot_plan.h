// SPDX-License-Identifier: Apache-2.0
//
// The computation of a rank for an average over a process group, between two collectives of the group. Each
// tensor is cut into partitions, and each partition has an owner. A partition travels in a slot of fixed
// size: a header of the wire format, and room for the codec's largest payload. So ranks exchange no sizes.
//
// The caller owns the memory of all collectives and uses it again in the next step:
//
//   outward   for each other rank, in order, the block of the partitions that the other rank owns. It has
//             the contributions of this rank first, and the averages of the owners later.
//   inward    for each other rank a block of the partitions that this rank owns. It has the contributions
//             of the other rank first, and this rank's averages later. A rank alone has one block, too.
//
// In a topology in which every rank sends everything to every other rank ("whole"), each block has all slots.
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

/// A partition of a tensor, and its place in a collective's memory.
struct Slot {
  std::string name;      ///< The tensor's name, for errors.
  size_t partition = 0;  ///< Its number in the tensor, for errors.
  size_t tensor = 0;     ///< The tensor's index in the list of each call.
  size_t first = 0;      ///< First element in the tensor.
  size_t count = 0;      ///< Number of elements.
  int owner = 0;
  size_t offset = 0;        ///< Bytes from the start of the owner's block.
  size_t payloadBytes = 0;  ///< Room for the payload.
  bool raw = false;         ///< The payload has the values in float32.
  bool scaled = false;      ///< The values have the factor of the average already.
  CodecPointer codec;
  CodecPointer aggregateCodec;  ///< nullptr: only the owner gets the average, unencoded.
  uint32_t number = 0;          ///< The tensor's number, for random rounding.
  uint64_t firstElement = 0;    ///< For random rounding: index of `first` in the whole tensor.
  std::string workerKey;        ///< Key of the states in a SlotStateTable.
  std::string aggregatorKey;
};

/// The values of a tensor, contiguous.
struct SlotValues {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  size_t count = 0;
};

/// The inputs of random rounding.
struct SlotStep {
  uint64_t seed = 0;  ///< The seed of this rank.
  uint64_t step = 0;
};

/// The slots of some tensors; immutable. The functions throw InvalidArgument if memory has a size other than
/// the plan's, and CorruptPayload with tensor, partition and sender.
class SlotPlan {
 public:
  SlotPlan(std::vector<Slot> slots, int rank, int world, bool whole);

  size_t outwardBytes() const { return outwardBytes_; }
  size_t inwardBytes() const { return inwardBytes_; }
  /// Bytes of the block of an owner's partitions.
  size_t blockBytes(int owner) const { return blockBytes_[static_cast<size_t>(owner)]; }

  /// Encodes the contributions of this rank for the other ranks. `changed` receives the new states.
  void encode(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, Bytes outward,
              SlotChanges& changed) const;

  /// The work of an owner. Adds the decoded values of all ranks in rank order, in float32, with its own
  /// values unencoded. Encodes sum times `factor` in place of the contributions. Writes the decoded result to
  /// its tensors; without an aggregator's codec, sum times `factor`.
  void average(std::span<const SlotValues> tensors, SlotStateTable& states, SlotStep step, float factor,
               Bytes inward, SlotChanges& changed) const;

  /// Decodes the averages of the other owners into the tensors.
  void decode(std::span<const SlotValues> tensors, ConstBytes outward) const;

  /// For "whole": adds the decoded values of all ranks in rank order, with this rank's from its own message
  /// (the first block of `outward`), and multiplies by `factor`.
  void averageWhole(std::span<const SlotValues> tensors, float factor, ConstBytes outward,
                    ConstBytes inward) const;

 private:
  enum class Purpose : uint8_t { kContribution = 0, kResult = 1 };  // like EncodeAs of the engine

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
  std::vector<size_t> blockBytes_;     ///< Index: the owner.
  std::vector<size_t> outwardStarts_;  ///< Index: the owner; this rank's is unused.
  size_t outwardBytes_ = 0;
  size_t inwardBytes_ = 0;
  size_t tensors_ = 0;
};

}  // namespace hipress
