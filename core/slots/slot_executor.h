// SPDX-License-Identifier: Apache-2.0
//
// Does the runs of a program (slot_program.h) on a device, which may be the host. A run puts its work on a
// stream and returns; neither the host nor the stream waits for the other. The device writes the headers of
// messages and checks those that come. If an owner refuses a message, all
// ranks get zeros, or NaN, in place of the average, and all tell the error. In an allgather there is no
// owner: a rank that refuses a message is the only one with zeros and the error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/device/device.h"
#include "core/slots/program/slot_program.h"
#include "core/slots/slot_changes.h"
#include "core/slots/slot_queue.h"

namespace hipress {

/// What all runs of one average get.
struct SlotCall {
  /// What this rank contributes, on the device. The averages go to the same memory.
  std::span<const SlotValues> tensors;
  SlotStateTable& states;
  SlotStep step;
  double factor = 1.0;  ///< Of the sum of all ranks' values.
  Bytes arena;          ///< On the device.
  SlotChanges& changed;
};

/// Works on one average at a time. The calls throw InvalidArgument if memory has another size than the
/// program needs.
class SlotExecutor {
 public:
  /// Throws Unsupported if the device has no code for a codec.
  SlotExecutor(std::shared_ptr<const SlotProgram> program, std::shared_ptr<Device> device);

  const SlotProgram& program() const;

  /// Clears an arena that no step has used yet: padding travels, too, and zeros hide the memory's earlier
  /// content.
  void prepare(DeviceStream& stream, Bytes arena) const;

  /// All messages of the hop before this run have come. Contributions get the codec's gradientFactor(). Sums
  /// are made in the order of the graph's merges, in float32; those of raw slots as reduceInOrder() does, so
  /// in the tensor's own type.
  void run(size_t number, SlotQueue& queue, const SlotCall& call) const;

  /// The end of a step: asks the stream for the errors that the device has found.
  void check(DeviceStream& stream, const SlotChanges& changed) const;
  /// Throws the first error of the work that has been checked: CorruptPayload with tensor, partition and
  /// sender, or the device's own. It does not wait.
  void raise() const;

 private:
  class Run;
  struct Shared;

  const std::shared_ptr<Shared> shared_;  // work on the stream uses it after the executor has ended
};

}  // namespace hipress
