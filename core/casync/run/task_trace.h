// SPDX-License-Identifier: Apache-2.0
//
// Spans of tasks for the trace, while a trace is recorded.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/casync/run/operation.h"
#include "core/trace/recorder.h"

namespace hipress {

class TaskTrace {
 public:
  /// `recorder` records from the start; nullptr: recording starts with begin().
  TaskTrace(const std::shared_ptr<TraceRecorder>& recorder, int rank)
      : recorder_(recorder ? recorder : std::make_shared<TraceRecorder>(rank)), recording_(recorder.get()) {}

  /// nullptr: no trace is recorded now.
  TraceRecorder* recorder() const { return recording_.load(std::memory_order_acquire); }
  /// The time in ns while a trace is recorded; otherwise 0.
  int64_t now() const { return recorder() == nullptr ? 0 : TraceRecorder::now(); }

  /// See Engine::startTrace() and stopTrace().
  void begin() {
    recorder_->begin();
    recording_.store(recorder_.get(), std::memory_order_release);
  }
  void end(const std::string& path) {
    recording_.store(nullptr, std::memory_order_release);
    recorder_->appendTo(path);
  }

  void record(const Operation& operation, const Task& task, TraceTrack track, int lane, int64_t startNs,
              size_t bytes) const {
    TraceRecorder* const trace = recorder();
    if (trace == nullptr || startNs == 0) return;  // the task began before the recording
    TraceSpan span;
    span.name = primitiveName(task.primitive);
    span.track = track;
    span.lane = lane;
    span.startNs = startNs;
    span.endNs = TraceRecorder::now();
    const Tensor& tensor = operation.tensor();
    span.tensor = trace->intern(tensor.spec().name);
    const bool encoded = tensor.spec().allreduce() != nullptr && !tensor.partitions()[task.partition].raw;
    span.codec = trace->intern(encoded ? tensor.spec().allreduce()->codec : "none");
    span.partition = task.partition;
    span.peer = task.peer;
    span.step = operation.values().step;
    span.bytes = bytes;
    trace->record(span);
  }

 private:
  const std::shared_ptr<TraceRecorder> recorder_;
  std::atomic<TraceRecorder*> recording_;
};

}  // namespace hipress
