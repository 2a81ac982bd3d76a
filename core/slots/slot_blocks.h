// SPDX-License-Identifier: Apache-2.0
//
// The slots of some tensors, and the blocks of memory in which they travel. Each tensor is cut into
// partitions, and each partition has an owner. A partition travels in a slot of fixed size: a header of the
// wire format, and room for the codec's largest payload. So ranks exchange no sizes.
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
  size_t padding = 0;       ///< Bytes behind the payload's room, so that the next slot is aligned.
  /// Of the tensor, and of the payload of a raw slot.
  DType dtype = DType::kFloat32;
  bool raw = false;     ///< The payload has the values as they are.
  bool scaled = false;  ///< Of a raw slot: the values have the factor of the average already.
  CodecPointer codec;
  CodecPointer aggregateCodec;  ///< nullptr: only the owner gets the average, unencoded.
  uint32_t number = 0;          ///< The tensor's number, for random rounding.
  uint64_t firstElement = 0;    ///< For random rounding: index of `first` in the whole tensor.
  std::string workerKey;        ///< Key of the states in a SlotStateTable.
  std::string aggregatorKey;
};

/// Whether ranks keep states of the slot's elements.
bool keepsStates(const Slot& slot);

/// The values of a tensor, without gaps, in the memory of the processor or of a device.
struct SlotValues {
  std::byte* data = nullptr;
  DType dtype = DType::kFloat32;
  size_t count = 0;
};

/// The step number and the seed of this rank, which random rounding depends on.
struct SlotStep {
  uint64_t seed = 0;
  uint64_t step = 0;
};

/// Whose values an encoding has: it chooses the random numbers, as EncodeAs of the engine does.
enum class SlotPurpose : uint8_t { kContribution = 0, kResult = 1 };

/// The context of an encoding of a slot's values times `factor`; of a contribution, times the codec's
/// gradientFactor() as well.
EncodeContext encodeContext(const Slot& slot, SlotStep step, SlotPurpose purpose, float factor);

/// The factor of the sum of a raw slot's values, if the average has the factor `factor`.
double rawFactor(const Slot& slot, double factor);

/// Immutable. Its functions throw InvalidArgument if memory has another size than the slots need.
class SlotBlocks {
 public:
  SlotBlocks(std::vector<Slot> slots, int rank, int world, bool whole);

  const std::vector<Slot>& slots() const { return slots_; }
  int rank() const { return rank_; }
  int world() const { return world_; }
  bool whole() const { return whole_; }

  size_t outwardBytes() const { return outwardBytes_; }
  size_t inwardBytes() const { return inwardBytes_; }
  /// Bytes of the block of a rank's partitions.
  size_t blockBytes(int owner) const { return blockBytes_[static_cast<size_t>(owner)]; }

  /// The message of a slot in the outward memory: in its owner's block, or with "whole" in the first one.
  Bytes outwardMessage(const Slot& slot, Bytes outward) const;
  ConstBytes outwardMessage(const Slot& slot, ConstBytes outward) const;
  /// The message of a slot in the block number `block` of the inward memory.
  Bytes inwardMessage(const Slot& slot, Bytes inward, size_t block) const;
  /// The contribution of another rank in the inward memory.
  ConstBytes contribution(const Slot& slot, ConstBytes inward, int rank) const;

  /// Also that each tensor has the type of its slots.
  void checkTensors(std::span<const SlotValues> tensors) const;
  void checkOutward(size_t bytes) const;
  void checkInward(size_t bytes) const;

 private:
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
