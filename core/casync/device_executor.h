// SPDX-License-Identifier: Apache-2.0
//
// What each computing primitive puts on a device's stream, and what the host makes of it afterwards. The same
// steps as the executor's, with the same results; the host knows what is absent, raw and how long, but sees
// no value.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/casync/device_values.h"
#include "core/casync/operation.h"

namespace hipress {

/// Whether `next` needs no word from the host that `task` is done: both are computed, on one stream.
inline bool isOrderedByDevice(const Operation& operation, TaskIndex task, TaskIndex next) {
  const auto& tasks = operation.tensor->graph.tasks();
  const auto computed = [](Primitive primitive) {
    return primitive != Primitive::kSend && primitive != Primitive::kRecv;
  };
  return computed(tasks[task].primitive) && computed(tasks[next].primitive);
}

class DeviceExecutor {
 public:
  DeviceExecutor(uint64_t seed, int rank) : seed_(seed), rank_(rank) {}

  /// Before an operation's first task: streams wait until the caller's values are there.
  static void begin(const std::shared_ptr<Operation>& operation);

  /// Puts an encode, merge or decode on its partition's stream. False if the device has nothing to do for it.
  /// Throws CorruptPayload (with tensor, partition and sender) for bad input.
  bool enqueue(Operation& operation, TaskIndex index) const;

  /// The device is done with the task: what the host learns by that. Throws what the device found.
  static void finish(Operation& operation, TaskIndex index);

  static DeviceStream& streamOf(const Operation& operation, const Task& task);

 private:
  static bool encodeRaw(Operation& operation, const Task& task);
  bool compress(Operation& operation, TaskIndex index) const;
  static bool decode(Operation& operation, TaskIndex index);
  static void finishEncode(Operation& operation, TaskIndex index);
  static void checkDecode(const Operation& operation, const Task& task, const DeviceTask& own, size_t word,
                          MessageIndex message);

  // device_merge.cc
  static bool merge(Operation& operation, TaskIndex index);
  static bool mergeRaw(Operation& operation, TaskIndex index);
  static bool mergeEncoded(Operation& operation, TaskIndex index, std::span<float> sum);
  static void addMessage(Operation& operation, TaskIndex index, MessageIndex number, std::span<float> sum,
                         DecodeMode mode, uint32_t* error);

  const uint64_t seed_;
  const int rank_;
};

}  // namespace hipress
