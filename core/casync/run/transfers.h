// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives: gives messages to Q_commu, and receives to the transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "core/casync/run/computation.h"
#include "core/casync/run/task_events.h"
#include "core/casync/run/task_trace.h"
#include "core/casync/send/communication_queue.h"
#include "core/transport/transport.h"

namespace hipress {

/// What this rank has sent raw of tensors with a codec: of small ones, within a host, or where the codec
/// would not shrink them.
struct RawCounters {
  uint64_t messages = 0;
  uint64_t bytes = 0;
};

class Transfers {
 public:
  Transfers(Transport& transport, const CommunicationOptions& options, AskRank0 ask, Computation& computation,
            TaskEvents& events, const TaskTrace& trace)
      : transport_(transport),
        computation_(computation),
        events_(events),
        trace_(trace),
        queue_(
            transport, options,
            [&events](const std::exception& error) { events.failed(couldNotSend(error)); }, std::move(ask)) {}

  void send(const OperationPointer& operation, TaskIndex task, int priority);
  void receive(const OperationPointer& operation, TaskIndex task);

  ScheduleCounters scheduleCounters() const { return queue_.scheduleCounters(); }
  RawCounters rawCounters() const { return {rawMessages_, rawBytes_}; }
  void stop() { queue_.stop(); }

 private:
  static Error couldNotSend(const std::exception& error);
  void fail(const Operation& operation, TaskIndex task, const Failure& failure);
  void failSend(const Operation& operation, TaskIndex task, const Failure& failure);

  Transport& transport_;
  Computation& computation_;
  TaskEvents& events_;
  const TaskTrace& trace_;
  std::atomic<uint64_t> rawMessages_{0};
  std::atomic<uint64_t> rawBytes_{0};
  CommunicationQueue queue_;
};

}  // namespace hipress
