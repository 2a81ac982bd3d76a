// SPDX-License-Identifier: Apache-2.0
//
// Encodes, merges and decodes: runs them on the host, where they became ready or on Q_comp, or puts them on
// the streams of their tensor's device. A device gets a task as soon as everything before the task is
// complete or on the same stream; only a message that is sent waits for the device.
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

  /// Before an operation's first task. Throws Error.
  void prepare(const OperationPointer& operation);
  void run(const OperationPointer& operation, TaskIndex task, int priority);
  /// Runs work on so many elements, which must not throw.
  void compute(size_t elements, int priority, std::function<void(Parallel&)> work);
  /// Whether `next` becomes ready by the device's own order, without word that `task` is done.
  static bool isOrderedByDevice(const Operation& operation, TaskIndex task, TaskIndex next);

  /// See Executor. Throw Error only.
  std::span<std::byte> accept(Operation& operation, const Task& recv, const MessageHeader& header,
                              size_t payloadBytes);
  void checkReceived(const Operation& operation, const Task& recv) const;

  /// Ends the job: the task, or what follows from its end, has thrown.
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
