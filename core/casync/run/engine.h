// SPDX-License-Identifier: Apache-2.0
//
// CaSync's runtime on one rank: agrees on tensors with the other ranks, then runs each tensor's task graph
// over the two queues, Q_comp (encode, merge, decode) and Q_commu (send, recv). Nothing here knows a
// framework. The engine is the front: it puts the parts together, which have the work and the locks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/base/buffer_pool.h"
#include "core/casync/agree/agreement.h"
#include "core/casync/agree/kept_states.h"
#include "core/casync/fail/deadline_watch.h"
#include "core/casync/fail/deadlines.h"
#include "core/casync/fail/failure_detection.h"
#include "core/casync/fail/job_end.h"
#include "core/casync/graph/tensor.h"
#include "core/casync/run/block_exchange.h"
#include "core/casync/run/engine_options.h"
#include "core/casync/run/operation.h"
#include "core/casync/run/scheduler.h"
#include "core/casync/run/task_trace.h"
#include "core/casync/run/tensor_table.h"
#include "core/codec/state/state_store.h"
#include "core/control/control_plane.h"
#include "core/transport/transport.h"

namespace hipress {

class Engine final : private OperationEvents, private LinkedRuntime {
 public:
  Engine(std::shared_ptr<ControlPlane> control, std::unique_ptr<Transport> transport, EngineOptions options);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return transport_->rank(); }
  int worldSize() const { return transport_->worldSize(); }
  const EngineOptions& options() const { return options_; }

  /// Agrees on the number of each tensor. All ranks declare the same tensors, in any order and at any time;
  /// waits for rank 0 only. Throws InvalidArgument, Unsupported, Mismatch, PeerLost, Timeout.
  /// Tensors of one group are declared together.
  std::vector<TensorHandle> declare(const std::vector<TensorSpec>& specs) {
    return agreement_.declare(specs);
  }

  /// declare() for a complete list that every rank must give alike and together, e.g. an optimizer's:
  /// compares the lists and shows the first difference (Mismatch). Waits for all ranks.
  std::vector<TensorHandle> agree(const std::string& listName, const std::vector<TensorSpec>& specs) {
    return agreement_.agree(listName, specs);
  }

  /// agree() anew on tensors that exist, by names, counts and element types: to send them in another way,
  /// with another codec. Tensors that are sent as before keep their handle and their steps; the handles of
  /// the others end, and their first step has the number 0 again. Codecs' states go where the next encoding
  /// finds them (state_handover.h). Throws the errors of agree(), and InvalidArgument if a tensor is in
  /// flight or a handle is not the named tensor's.
  std::vector<AgreedAnew> agreeAnew(const std::string& listName, const std::vector<TensorHandle>& handles,
                                    const std::vector<TensorSpec>& specs) {
    return agreement_.agreeAnew(listName, handles, specs);
  }

  /// The tensor that ranks have agreed on. Throws InvalidArgument for an unknown handle, NotInitialized after
  /// shutdown().
  std::shared_ptr<const Tensor> tensor(TensorHandle handle) const { return table_.tensor(handle); }

  /// Starts one synchronisation; returns at once. Every rank submits each tensor the same number of times.
  /// Throws DuplicateName if the tensor is in flight already, and the error that made the engine fail before.
  /// An operation that fails may have updated the tensor's states, or not: after a failure they belong to no
  /// step, and a caller that goes on from a checkpoint takes them from there, or starts with none.
  OperationHandle submit(TensorHandle tensor, Submission submission);

  /// What codecs keep of a tensor on this rank, for checkpoints, and back; see kept_states.h.
  KeptStates keptStates(TensorHandle tensor) const { return hipress::keptStates(table_, tensor); }
  void readState(TensorHandle tensor, const std::string& state, std::span<float> values) const {
    hipress::readState(table_, states_, tensor, state, values);
  }
  std::vector<std::vector<float>> restoreStates(const std::vector<TensorHandle>& tensors,
                                                const std::vector<RestoredStates>& restored) {
    return hipress::restoreStates(table_, states_, tensors, restored);
  }

  /// Declares an allgather or an alltoall and starts it; returns when rank 0 has answered. `spec` needs no
  /// count, its shape says what is the same on all ranks, and it is used once. Throws the errors of
  /// declare(); later errors go to onDone.
  void moveBlocks(TensorSpec spec, BlockSubmission blocks) {
    hipress::moveBlocks(*this, table_, std::move(spec), std::move(blocks));
  }

  /// Whether the operation has ended (well or not).
  bool poll(OperationHandle operation);

  /// Waits for at most `slice`; false if it has not ended by then. When it has ended: forgets the handle and
  /// throws the operation's error, if it has one. `*absent`: no rank had values, the output was not written.
  bool wait(OperationHandle operation, Milliseconds slice, bool* absent = nullptr);

  /// The first failure ends the engine on all ranks: operations in flight and later calls throw it.
  void fail(const Error& error) { failures_.fail(error); }
  /// Throws the error that ended the engine; after shutdown() NotInitialized, with what the caller is
  /// `doing`.
  void throwIfFailed(const std::string& doing) { table_.throwIfEnded(doing); }

  /// Says goodbye to the others, waits up to `linger` for theirs, and stops: operations that are still in
  /// flight end with NotInitialized. Idempotent; a second caller waits for the first. `reason`: see
  /// ControlPlane::leave().
  void shutdown(Milliseconds linger, const std::string& reason = {});

  /// How the other ranks failed while this one had left and waited for them; nullptr: they did not.
  Failure failedWithoutThis() const { return job_.failedWithoutThis(); }

  TransportCounters counters() const { return transport_->counters(); }
  ScheduleCounters scheduleCounters() const { return scheduler_.scheduleCounters(); }
  StateStore& states() { return states_; }
  BufferPool::Statistics poolStatistics() const { return pool_.statistics(); }
  DeviceQueue::Statistics deviceStatistics() { return table_.devices().statistics(); }
  /// nullptr: nothing is recorded now.
  TraceRecorder* trace() const { return trace_.recorder(); }
  /// Records from now on; an earlier recording is forgotten.
  void startTrace() { trace_.begin(); }
  /// Appends the recording to a file, see TraceRecorder::appendTo(), and records no more.
  void stopTrace(const std::string& path) { trace_.end(path); }
  ControlPlane& control() { return *control_; }

 private:
  OperationPointer start(TensorHandle tensor, Submission&& submission, bool atOnce = false);
  void startGroup(const std::shared_ptr<GroupStep>& step);
  void endGroup(const std::shared_ptr<GroupStep>& step, const Failure& failure, bool absent);
  bool checkUnattended();
  void stop(Milliseconds linger, const std::string& reason);

  void compute(const OperationPointer& operation, std::function<void(Parallel&)> work) override {
    scheduler_.compute(operation, std::move(work));
  }
  OperationPointer startLinked(TensorHandle tensor, Submission&& submission) override {
    return start(tensor, std::move(submission), true);
  }
  void endLinked(const OperationPointer& operation, const Failure& failure) override {
    table_.end(operation, failure);
  }

  void done(const OperationPointer& operation) override { table_.end(operation, nullptr); }
  void failed(const Error& error) override { failures_.fail(error); }
  void lost(int rank, const std::string& how) override { failures_.lost(rank, how); }

  const EngineOptions options_;
  const std::shared_ptr<ControlPlane> control_;
  TaskTrace trace_;
  StateStore states_;
  BufferPool pool_;  // before everything that may hold its buffers
  JobEnd job_;
  TensorTable table_;
  const std::unique_ptr<Transport> transport_;
  Agreement agreement_;
  FailureDetection failures_;
  Deadlines deadlines_;
  Scheduler scheduler_;
  DeadlineWatch deadlineWatch_;
  std::once_flag stopping_;
};

}  // namespace hipress
