// SPDX-License-Identifier: Apache-2.0
//
// The partitions of tensors that ranks average over a process group. A partition travels in slots of fixed
// size: a header of the wire format, and room for the codec's largest payload. So ranks exchange no sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/casync/graph/task_graph.h"
#include "core/codec/codec.h"
#include "core/element/dtype.h"

namespace hipress {

/// A partition of a tensor.
struct Slot {
  std::string name;      ///< The tensor's name, for errors.
  size_t partition = 0;  ///< Its number in the tensor, for errors.
  size_t tensor = 0;     ///< The tensor's index in the list of each call.
  size_t first = 0;      ///< First element in the tensor.
  size_t count = 0;      ///< Number of elements.
  int owner = 0;  ///< As TopologyContext::firstRank of a partition: with hosts it may be a greater number.
  size_t payloadBytes = 0;  ///< Room for an encoded payload, or the bytes of a raw one.
  /// Of the tensor, and of the payload of a raw slot.
  DType dtype = DType::kFloat32;
  bool raw = false;     ///< The payload has the values as they are.
  bool scaled = false;  ///< Of a raw slot: the values have the factor of the average already.
  bool counted = true;  ///< Whether SlotHop::counted has its bytes.
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

/// The context of an encoding of a slot's values times `factor`.
EncodeContext encodeContext(const Slot& slot, SlotStep step, EncodeAs as, float factor);

/// The factor of the sum of a raw slot's values, if the average has the factor `factor`.
double rawFactor(const Slot& slot, double factor);

}  // namespace hipress
