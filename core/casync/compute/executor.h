// SPDX-License-Identifier: Apache-2.0
//
// Runs encodes, merges and decodes, on the host and on devices. Only this class knows graphs, codecs and
// element types together. A task puts its work on a stream (start) and reads the results when the stream is
// done (finish). The host's stream is done at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/device_values.h"
#include "core/casync/compute/step_values.h"
#include "core/casync/compute/task_step.h"
#include "core/device/host_stream.h"

namespace hipress {

/// Whether `next` may enter its stream before the host knows that `task` is done: both compute, and on the
/// same stream.
inline bool isOrderedByDevice(const StepValues& operation, TaskIndex task, TaskIndex next) {
  const auto& tasks = operation.tensor->graph().tasks();
  const auto computed = [](Primitive primitive) {
    return primitive != Primitive::kSend && primitive != Primitive::kRecv;
  };
  return computed(tasks[task].primitive) && computed(tasks[next].primitive);
}

class Executor {
 public:
  /// Large encodes and decodes on the host use the threads of `parallel`. `neighbours`: for each rank the
  /// process whose memory this rank can read, or 0; empty: none.
  Executor(BufferPool& pool, Parallel& parallel, uint64_t seed, int rank, std::vector<uint64_t> neighbours)
      : pool_(pool), host_(&parallel), seed_(seed), rank_(rank), neighbours_(std::move(neighbours)) {}

  /// Prepares an operation before its first task. The streams wait until the caller's values are ready, and
  /// multiply them by Tensor::ownFactor. Throws InvalidArgument.
  void begin(const std::shared_ptr<StepValues>& operation);

  /// Runs an encode, merge or decode on the host. Throws CorruptPayload (with tensor, partition and sender)
  /// for bad input.
  void run(StepValues& operation, const Task& task);

  /// Puts an encode, merge or decode on the stream of its partition. Returns false if the device has no work
  /// for the task: then finish() must not be called. Throws the errors of run().
  bool enqueue(StepValues& operation, TaskIndex index);
  /// Ends a task when the device is done with it. Throws the errors that the device found.
  void finish(StepValues& operation, TaskIndex index);
  static DeviceStream& streamOf(const StepValues& operation, const Task& task);

  /// Checks the header of an arrived message and returns the memory for its payload. Throws CorruptPayload.
  std::span<std::byte> accept(StepValues& operation, const Task& recv, const WireHeaderBytes& header,
                              size_t payloadBytes);

  /// Checks a complete payload. Throws CorruptPayload if the payload refers to the memory of a process that
  /// is not the sender's.
  void checkReceived(const StepValues& operation, const Task& recv) const;

  /// The number of elements on which `run` computes; 0 for a task that only passes memory on.
  static size_t work(const StepValues& operation, const Task& task);

 private:
  TaskStep stepOnDevice(StepValues& operation, TaskIndex index) const;
  bool start(const TaskStep& step);
  static void finish(const TaskStep& step);
  bool encode(const TaskStep& step);
  void encodeRaw(const TaskStep& step);
  void pack(const TaskStep& step);
  void compress(const TaskStep& step);
  static bool decode(const TaskStep& step);
  static bool decodeRaw(const TaskStep& step, std::span<std::byte> output);
  static void finishEncode(const TaskStep& step);
  static void checkDecode(const TaskStep& step, size_t word, MessageIndex message);
  bool mayRefer(const StepValues& operation, MessageIndex message) const;

  BufferPool& pool_;
  HostStream host_;
  const uint64_t seed_;
  const int rank_;
  const std::vector<uint64_t> neighbours_;
};

}  // namespace hipress
