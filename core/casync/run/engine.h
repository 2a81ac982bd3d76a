// SPDX-License-Identifier: Apache-2.0
//
// CaSync's runtime on one rank: agrees on tensors with the other ranks, then runs each tensor's task graph
// over the two queues, Q_comp (encode, merge, decode) and Q_commu (send, recv). No file here knows a
// framework. The engine is a front: its parts do the work and have the locks.
#pragma once

#include <cstdint>
#include <functional>
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
#include "core/casync/run/join/joining.h"
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
  /// the call waits for rank 0 only. Throws InvalidArgument, Unsupported, Mismatch, PeerLost, Timeout. All
  /// tensors of a group are in one call.
  std::vector<TensorHandle> declare(const std::vector<TensorSpec>& specs) {
    return agreement_.declare(specs);
  }

  /// declare() for one tensor that serves one operation, without a wait for rank 0: the tensor's operation
  /// starts when rank 0 has answered, so a burst of calls costs one round trip. A Mismatch ends the
  /// operation, or is thrown by submit(). `onNumber` gets the tensor's number before the operation starts.
  /// Throws InvalidArgument, Unsupported, and the engine's failure.
  TensorHandle announce(TensorSpec spec, std::function<void(uint32_t)> onNumber = nullptr);

  /// Says that this rank has refused a call that the other ranks of the set may make under this name: they
  /// get a Mismatch with the reason, where they would wait for this rank. Takes the place of announce(). Does
  /// not wait, and throws nothing.
  void announceRefusal(const std::string& name, const std::string& reason, const ProcessSet& among);

  /// declare() for a complete list, e.g. of an optimizer, that all ranks declare together and alike. Compares
  /// the ranks' lists and reports the first difference as a Mismatch. Waits for all ranks.
  std::vector<TensorHandle> agree(const std::string& listName, const std::vector<TensorSpec>& specs) {
    return agreement_.agree(listName, specs);
  }

  /// Repeats agree() for existing tensors, with the same names, counts and element types, to send them in
  /// another way, e.g. with another codec. A tensor whose way is unchanged keeps its handle and its step
  /// count. The handles of all other tensors end, and the next step of these tensors has the number 0. Codec
  /// states move to where the next encode reads them (state_handover.h). Throws the errors of agree(), and
  /// InvalidArgument if a tensor is in flight or if a handle is not of the named tensor.
  std::vector<AgreedAnew> agreeAnew(const std::string& listName, const std::vector<TensorHandle>& handles,
                                    const std::vector<TensorSpec>& specs) {
    return agreement_.agreeAnew(listName, handles, specs);
  }

  /// Frees what this rank keeps of agreed tensors that it does not submit any more, their codec states too.
  /// No other rank is asked. Tensors in flight stay. Throws InvalidArgument, NotInitialized.
  void forget(const std::vector<TensorHandle>& handles) { agreement_.forget(handles); }

  /// The agreed tensor of a handle. Throws InvalidArgument for an unknown handle, NotInitialized after
  /// shutdown().
  std::shared_ptr<const Tensor> tensor(TensorHandle handle) const { return table_.tensor(handle); }

  /// Starts one synchronisation and returns at once. Every rank submits each tensor equally often. Throws
  /// DuplicateName if the tensor is in flight already, and the engine's failure if it has failed. A failed
  /// operation leaves the codec states of the tensor as they were, on this rank. After a failure the states
  /// match no step: a caller that continues from a checkpoint restores them from there, or starts without
  /// states.
  OperationHandle submit(TensorHandle tensor, Submission submission);

  /// The codec states of a tensor on this rank, for checkpoints, and their restoration; see kept_states.h.
  KeptStates keptStates(TensorHandle tensor) const { return hipress::keptStates(table_, tensor); }
  void readState(TensorHandle tensor, const CodecState& state, std::span<float> values) const {
    hipress::readState(table_, states_, tensor, state, values);
  }
  std::vector<std::vector<float>> restoreStates(const std::vector<TensorHandle>& tensors,
                                                const std::vector<RestoredStates>& restored) {
    return hipress::restoreStates(table_, states_, tensors, restored);
  }

  /// See TensorTable::multiplyStates().
  void multiplyStates(const std::vector<TensorHandle>& tensors, float factor) {
    table_.multiplyStates(tensors, factor);
  }

  /// See TensorTable.
  void settleBySteps(const std::vector<TensorHandle>& tensors) { table_.settleBySteps(tensors); }
  bool endStep(TensorHandle tensor) { return table_.endStep(tensor); }

  /// Announces an allgather or an alltoall and starts it. `spec` needs no count; its shape has the dimensions
  /// that all ranks share. It serves one operation. Throws the errors of announce(). The operation reports
  /// later errors to onDone.
  void moveBlocks(TensorSpec spec, BlockSubmission blocks) {
    hipress::moveBlocks(*this, table_, std::move(spec), std::move(blocks));
  }

  /// Waits until all ranks have called it. Until then this rank takes part in the others' all-reduces without
  /// values: it counts as zeros in sums and averages, and its codecs keep what they have. Other collectives
  /// of the others fail with Unsupported. Waits for this rank's own operations first, and in the end for its
  /// part of the others'. Returns the rank that called last. Throws Unsupported for tensors on devices,
  /// PeerLost.
  int join();

  /// Whether the operation has ended, with success or with an error.
  bool poll(OperationHandle operation);

  /// Waits for at most `slice`. Returns false if the operation has not ended by then. Otherwise forgets the
  /// handle and throws the operation's error, if any. `*absent`: no rank had values, the output is unwritten.
  bool wait(OperationHandle operation, Milliseconds slice, bool* absent = nullptr);

  /// Reports a failure. The first one ends the engine on all ranks: operations and later calls throw it.
  void fail(const Error& error) { failures_.fail(error); }
  /// Throws the failure that ended the engine, or NotInitialized after shutdown(). `doing` names the caller's
  /// action in the message.
  void throwIfFailed(const std::string& doing) { table_.throwIfEnded(doing); }

  /// Says goodbye to the other ranks, waits up to `linger` for their goodbyes, and stops. Operations still in
  /// flight end with NotInitialized. Idempotent: a second caller waits for the first. `reason`: see
  /// ControlPlane::leave().
  void shutdown(Milliseconds linger, const std::string& reason = {});

  /// The failure of other ranks while this rank, after its goodbye, waited for them; nullptr: no failure.
  Failure failedWithoutThis() const { return job_.failedWithoutThis(); }

  TransportCounters counters() const { return transport_->counters(); }
  ScheduleCounters scheduleCounters() const { return scheduler_.scheduleCounters(); }
  RawCounters rawCounters() const { return scheduler_.rawCounters(); }
  StateStore& states() { return states_; }
  BufferPool::Statistics poolStatistics() const { return pool_.statistics(); }
  DeviceQueue::Statistics deviceStatistics() { return table_.devices().statistics(); }
  /// The recorder of the current trace; nullptr: no trace is recorded.
  TraceRecorder* trace() const { return trace_.recorder(); }
  /// Starts a recording and drops an earlier one.
  void startTrace() { trace_.begin(); }
  /// Ends the recording and appends it to a file, see TraceRecorder::appendTo().
  void stopTrace(const std::string& path) { trace_.end(path); }
  ControlPlane& control() { return *control_; }

 private:
  OperationPointer start(TensorHandle tensor, Submission&& submission, bool atOnce = false);
  void run(const TensorTable::Begun& begun, bool atOnce);
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
  BufferPool pool_;  // destroyed after all members below, which may hold its buffers
  JobEnd job_;
  TensorTable table_;
  const std::unique_ptr<Transport> transport_;
  Agreement agreement_;
  FailureDetection failures_;
  Deadlines deadlines_;
  Scheduler scheduler_;
  Joining joining_;
  DeadlineWatch deadlineWatch_;
  std::once_flag stopping_;
};

}  // namespace hipress
