// SPDX-License-Identifier: Apache-2.0
//
// The values that the tasks of one synchronisation share. The task graph orders all accesses, so there are no
// locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/graph/tensor.h"
#include "core/codec/state/state_store.h"
#include "core/codec/state/step_verdict.h"
#include "core/codec/wire/wire_header.h"
#include "core/transport/neighbour/neighbour_memory.h"

namespace hipress {

struct DeviceValues;

/// A message that this rank encodes, sends, receives or decodes.
struct MessageState {
  WireHeader header;
  std::span<const std::byte> payload;  // in `buffer`, in the caller's tensor, or `reference`
  BufferPool::Buffer buffer;
  MemoryReference reference;  // the payload, if the header has the reference flag

  bool isReference() const { return (header.flags & kFlagReference) != 0; }
  bool absent() const { return (header.flags & kFlagAbsent) != 0; }
  bool isPacked() const { return (header.flags & kFlagPacked) != 0; }
};

/// The result of a merge, for other tasks.
struct SumState {
  BufferPool::Buffer values;  // float32; merges of raw partitions write to the output instead
  bool absent = false;        // no rank had values
};

/// What messages carry of the updates of a variable: their number, and a digest of the factors by which the
/// results of all steps so far were multiplied. Ranks in step have the same of both. The value 0 says that
/// the sender has neither.
inline constexpr uint32_t kUpdatesCycle = 255;
inline constexpr uint32_t kFactorsCycle = 257;
inline uint16_t updatesInMessage(uint64_t count, uint64_t factors = 0) {
  return static_cast<uint16_t>(1 + count % kUpdatesCycle + kUpdatesCycle * (factors % kFactorsCycle));
}
inline uint32_t countIn(uint16_t updates) {
  return (updates - 1u) % kUpdatesCycle;
}
inline uint32_t factorsIn(uint16_t updates) {
  return (updates - 1u) / kUpdatesCycle;
}

struct StepValues {
  explicit StepValues(std::shared_ptr<const Tensor> planned);
  ~StepValues();

  /// Opens the codec's states in the store. Those that the last step opened stay valid until the store cuts
  /// or takes states.
  void openStates(StateStore& store);
  /// Multiplies the opened states where they are. Returns when their device has done it. Throws Timeout, and
  /// the errors of the device.
  void multiplyStates(float factor);
  /// Drops the values that the tasks of another step have left.
  void arm(uint32_t stepNumber);
  /// The task no longer needs the bytes of its messages. Staging that no other task reads returns to the
  /// pool.
  void endReading(const Task& task);
  /// All tasks are complete: settles the states, or leaves them to the step's verdict, and releases the
  /// memory.
  void release();
  /// The first of both alone, for an operation without tasks.
  void endStates();

  const std::shared_ptr<const Tensor> tensor;
  uint32_t step = 0;
  uint32_t randomTensor = 0;         // in the key of random values; see SentSteps
  const std::byte* input = nullptr;  // nullptr: this rank has no values in this step
  std::byte* output = nullptr;
  uint16_t updates = 0;                            // updates of the variable whose gradient this is
  void* ready = nullptr;                           // on a device: the event after which input is readable
  BufferPool::Buffer scaled;                       // the input times Tensor::ownFactor, if that is not 1
  std::shared_ptr<TensorStates> workerStates;      // nullptr: the codec has no states
  std::shared_ptr<TensorStates> aggregatorStates;  // the states of aggregateCodec
  uint64_t statesGeneration = 0;                   // of the store when these states were opened
  std::shared_ptr<StepVerdict> verdict;            // nullptr: this result alone decides over the states
  std::unique_ptr<DeviceValues> device;            // nullptr: the values are on the host
  std::vector<MessageState> messages;
  std::vector<std::atomic<uint32_t>> readers;  // by message: tasks that still need its bytes
  std::vector<SumState> sums;
  std::atomic<bool> absent{false};  // no rank had values; the output is unwritten
  /// The average is not finite. Each rank finds this in the same results, so all ranks decide alike.
  std::atomic<bool> notFinite{false};

 private:
  void openFactorStates(StateStore& store);
  void multiply(const std::shared_ptr<TensorStates>& states, float factor) const;
  void settleStates(bool keep);

  std::shared_ptr<StepVerdict> awaited_;  // has the states of the last step
};

}  // namespace hipress
