// SPDX-License-Identifier: Apache-2.0
//
// Runs the task graph of an operation. A completed task clears its successors. A task with all predecessors
// complete goes to the computation (Q_comp) or to the transfers (Q_commu).
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "core/base/mutex.h"
#include "core/casync/run/computation.h"
#include "core/casync/run/engine_options.h"
#include "core/casync/run/task_events.h"
#include "core/casync/run/transfers.h"

namespace hipress {

class Scheduler final : private TaskEvents {
 public:
  Scheduler(const EngineOptions& options, Transport& transport, AskRank0 ask, BufferPool& pool,
            OperationEvents& events, const TaskTrace& trace);

  /// Starts a submitted operation. Without pipelining it starts when all operations before it have ended.
  void start(const OperationPointer& operation);
  /// Starts an operation for which another operation waits.
  void startAtOnce(const OperationPointer& operation) { begin(operation); }
  /// Runs `work` on Q_comp, or at once if the operation is small. `work` must not throw.
  void compute(const OperationPointer& operation, std::function<void(Parallel&)> work);
  /// The operation has ended before its tasks were complete, and other operations continue.
  void leave(const OperationPointer& operation) { startNext(*operation); }

  ScheduleCounters scheduleCounters() const { return transfers_.scheduleCounters(); }
  RawCounters rawCounters() const { return transfers_.rawCounters(); }
  /// From here on no task starts. Tasks that have started end.
  void stop();

 private:
  void begin(const OperationPointer& operation);
  void startRoots(const OperationPointer& operation);
  void startNext(const Operation& ended);
  void release(const OperationPointer& operation, TaskIndex task);
  void advance(const OperationPointer& operation, TaskIndex task);

  void completed(const OperationPointer& operation, TaskIndex task) override;
  void failed(const Error& error) override { events_.failed(error); }
  void lost(int rank, const std::string& how) override { events_.lost(rank, how); }

  const bool pipelining_;
  const bool priorities_;
  OperationEvents& events_;
  Computation computation_;
  Transfers transfers_;
  Mutex mutex_;
  std::deque<OperationPointer> inOrder_
      HIPRESS_GUARDED_BY(mutex_);  // without pipelining: the first one is running
};

}  // namespace hipress
