// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of one synchronisation of a tensor leave for each other. The task graph orders all accesses:
// there are no locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/graph/tensor.h"
#include "core/codec/state/state_store.h"
#include "core/codec/wire/wire_header.h"
#include "core/transport/neighbour/neighbour_memory.h"

namespace hipress {

struct DeviceValues;

/// An encoded message on its way through this rank.
struct MessageState {
  WireHeader header;
  std::span<const std::byte> payload;  // in `buffer`, in the caller's tensor, or `reference`
  BufferPool::Buffer buffer;
  MemoryReference reference;  // the payload, if the header says that it is one

  bool isReference() const { return (header.flags & kFlagReference) != 0; }
  bool absent() const { return (header.flags & kFlagAbsent) != 0; }
};

/// What a merge left for other tasks.
struct SumState {
  BufferPool::Buffer values;  // float32; raw partitions are merged into the output instead
  bool absent = false;        // no rank had values
};

/// A count of updates as messages carry it: never 0, which says that the sender does not count.
inline constexpr uint32_t kUpdatesCycle = 65535;
inline uint16_t updatesInMessage(uint64_t count) {
  return static_cast<uint16_t>(1 + count % kUpdatesCycle);
}

struct StepValues {
  explicit StepValues(std::shared_ptr<const Tensor> planned);
  ~StepValues();

  /// Forgets what the tasks of another step have left.
  void arm(uint32_t stepNumber);
  /// The task needs the bytes of its messages no more: staging that no other task reads goes back to the
  /// pool.
  void endReading(const Task& task);
  /// All tasks are complete.
  void release();

  const std::shared_ptr<const Tensor> tensor;
  uint32_t step = 0;
  uint32_t randomTensor = 0;  // in the key of random values; the tensor's number, unless it was restored
  const std::byte* input = nullptr;  // nullptr: this rank has no values in this step
  std::byte* output = nullptr;
  uint16_t updates = 0;                            // of the variable whose gradient the tensor is
  void* ready = nullptr;                           // on a device: the event after which input may be read
  BufferPool::Buffer scaled;                       // the input, if Tensor::ownFactor has changed it
  std::shared_ptr<TensorStates> workerStates;      // nullptr: the codec keeps none
  std::shared_ptr<TensorStates> aggregatorStates;  // the same for aggregateCodec
  uint64_t statesGeneration = 0;                   // of the store when these were opened
  std::unique_ptr<DeviceValues> device;            // nullptr: the values are on the host
  std::vector<MessageState> messages;
  std::vector<std::atomic<uint32_t>> readers;  // by message: tasks that still need its bytes
  std::vector<SumState> sums;
  std::atomic<bool> absent{false};  // no rank had values; the output was not written
};

}  // namespace hipress
