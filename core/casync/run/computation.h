// SPDX-License-Identifier: Apache-2.0
//
// Runs encodes, merges and decodes. A task on the host runs on the thread that made it ready, or on Q_comp. A
// task on a device goes to a stream of the device as soon as each task before it is complete or precedes it
// on the same stream. Only a send waits until the device has done the work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/compute/compute_queue.h"
#include "core/casync/compute/executor.h"
#include "core/casync/run/engine_options.h"
#include "core/casync/run/task_events.h"
#include "core/casync/run/task_trace.h"

namespace hipress {

class Computation {
 public:
  Computation(const EngineOptions& options, int rank, BufferPool& pool, TaskEvents& events,
              const TaskTrace& trace);

  /// Prepares an operation before its first task. Throws Error.
  void prepare(const OperationPointer& operation);
  void run(const OperationPointer& operation, TaskIndex task, int priority);
  /// Runs `work` on a tensor of `elements` elements. `work` must not throw.
  void compute(size_t elements, int priority, std::function<void(Parallel&)> work);
  /// Whether the device's own order makes `next` ready, without a report that `task` is done.
  static bool isOrderedByDevice(const Operation& operation, TaskIndex task, TaskIndex next);

  /// These two call the functions of Executor with the same names. They throw Error only.
  std::span<std::byte> accept(Operation& operation, const Task& recv, const MessageHeader& header,
                              size_t payloadBytes);
  void checkReceived(const Operation& operation, const Task& recv) const;

  /// Ends the job, because the task or a successor that it made ready has thrown.
  void fail(const Operation& operation, const Task& task, const std::exception& error);

  void stop() { queue_.stop(); }

 private:
  void runOnHost(const OperationPointer& operation, TaskIndex task, int lane);
  void runOnDevice(const OperationPointer& operation, TaskIndex task);
  void onDeviceDone(const OperationPointer& operation, TaskIndex task, const Failure& failure);
  void record(const Operation& operation, const Task& task, int lane, int64_t startNs) const;

  const int rank_;
  const size_t inlineElements_;
  const int lanes_;
  TaskEvents& events_;
  const TaskTrace& trace_;
  ComputeQueue queue_;
  Executor executor_;
};

}  // namespace hipress
