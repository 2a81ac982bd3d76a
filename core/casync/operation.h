// SPDX-License-Identifier: Apache-2.0
//
// One synchronisation of one tensor in flight: its armed task graph and what the tasks leave for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/casync/buffer_pool.h"
#include "core/casync/neighbour_memory.h"
#include "core/casync/tensor.h"
#include "core/codec/state_store.h"
#include "core/codec/wire_header.h"
#include "core/transport/transport.h"

namespace hipress {

using Clock = std::chrono::steady_clock;

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
  bool absent = false;        // nobody had values
};

struct DeviceValues;

/// An operation in flight; see Engine::submit().
using OperationHandle = uint64_t;
/// How an operation ended, nullptr: well; and whether no rank had values, so that the output was not written.
using OnDone = std::function<void(const Failure& failure, bool absent)>;

class Operation {
 public:
  explicit Operation(std::shared_ptr<const Tensor> agreed);
  ~Operation();

  /// Makes it the tensor's synchronisation of another step: the memory is the one of before. Nobody else
  /// holds it.
  void arm(uint32_t stepNumber);

  const std::shared_ptr<const Tensor> tensor;
  uint32_t step = 0;

  // Set before the operation starts.
  const std::byte* input = nullptr;  // nullptr: this rank has no values in this step
  std::byte* output = nullptr;
  std::shared_ptr<void> keepAlive;                 // owns input and output
  std::shared_ptr<TensorStates> workerStates;      // nullptr: the codec keeps none
  std::shared_ptr<TensorStates> aggregatorStates;  // the same for aggregateCodec
  uint64_t statesGeneration = 0;                   // of the store when these were opened
  void* ready = nullptr;                           // on a device: the event after which input may be read
  Clock::time_point submitted;
  Clock::time_point asked;  // whom it waits for, when the deadline had passed; under the engine's lock
  OperationHandle handle = 0;
  OnDone onDone;  // nullptr: somebody waits

  std::unique_ptr<DeviceValues> device;  // nullptr: the values are on the host

  // By task, message and sum; each is touched only by tasks that the graph orders.
  std::vector<std::atomic<uint32_t>> pending;
  std::vector<std::atomic<bool>> complete;
  std::vector<int64_t> startedNs;
  std::vector<MessageState> messages;
  std::vector<std::atomic<uint32_t>> readers;  // of each message: tasks that need its bytes still
  std::vector<SumState> sums;
  std::atomic<uint32_t> remaining{0};
  std::atomic<bool> absent{false};  // no rank had values; the output was not written

  /// The task needs the bytes of its messages no more: staging that nobody else reads goes back to the pool.
  void endReading(const Task& task);

  /// Ends the operation and wakes the waiter. Whether this was the first call: the others change nothing.
  bool finish(const Failure& failure);
  bool finished() const { return finished_.load(std::memory_order_acquire); }
  /// Waits until finished or `until`; whether finished.
  bool waitUntil(Clock::time_point until);
  /// After finished(): how it ended.
  Failure failure() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable done_;
  std::atomic<bool> finished_{false};
  Failure failure_;
};

}  // namespace hipress
