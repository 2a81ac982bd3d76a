// SPDX-License-Identifier: Apache-2.0
//
// CaSync's runtime on one rank: agrees on tensors with the other ranks, then runs each tensor's task graph
// over the two queues, Q_comp (encode, merge, decode) and Q_commu (send, recv). Nothing here knows a
// framework.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/casync/block_submission.h"
#include "core/casync/buffer_pool.h"
#include "core/casync/communication_queue.h"
#include "core/casync/compute_queue.h"
#include "core/casync/deadline_watch.h"
#include "core/casync/device_executor.h"
#include "core/casync/device_queue.h"
#include "core/casync/executor.h"
#include "core/casync/operation.h"
#include "core/casync/tensor.h"
#include "core/codec/state_store.h"
#include "core/control/control_plane.h"
#include "core/trace/recorder.h"
#include "core/transport/transport.h"

namespace hipress {

struct GroupStep;
struct TensorGroup;
struct TravellingPart;

struct EngineOptions {
  int computeThreads = 1;
  Milliseconds timeout{60000};                    ///< From submit() until every rank must have done its part.
  size_t partitionBytes = kFavouredPayloadBytes;  ///< Unless a tensor says how many.
  CommunicationOptions communication;
  size_t inlineElements = 16384;  ///< Compute tasks up to this size run where they became ready.
  uint64_t seed = 0;              ///< Of random rounding.
  /// Off: a tensor begins when the one before it, in the order of submission, is done, and is cut into one
  /// partition per rank at most. To measure what overlap is worth; ranks must submit in the same order then.
  bool pipelining = true;
  bool priorities = true;      ///< Off: first come, first served.
  std::vector<int> hosts;      ///< Number of each rank's host; empty: all ranks are on one.
  std::vector<bool> readable;  ///< Ranks that read each other's memory (neighbour_memory.h); empty: none.
  std::shared_ptr<TraceRecorder> trace;  ///< Records from the start; nullptr: only after startTrace().
};

/// A tensor that ranks have agreed on; see Engine::agree().
using TensorHandle = uint32_t;

/// A tensor that is sent in another way from now on; see Engine::agreeAnew().
struct AgreedAnew {
  TensorHandle handle = 0;
  /// Residual that nobody encodes here any more: what the caller adds to the tensor's next values, once.
  std::vector<float> heldBack;
};

/// The values of one step.
struct Submission {
  const void* input =
      nullptr;             ///< spec.count elements, unchanged until completion; nullptr: none in this step.
  void* output = nullptr;  ///< spec.count elements; may be `input`. Undefined until completion.
  /// On a device: what a framework recorded after the work that makes input and output usable, an event of
  /// the device's kind that keepAlive owns; nullptr: they are.
  void* ready = nullptr;
  std::shared_ptr<void> keepAlive;  ///< Released when no thread and no network touches the two any more.
  /// If given, it is called once when the operation has ended, on whichever thread ended it, and nobody may
  /// wait() for or poll() the operation. It must not block, throw, or shut the engine down.
  OnDone onDone;
};

class Engine {
 public:
  Engine(std::shared_ptr<ControlPlane> control, std::unique_ptr<Transport> transport, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int worldSize() const { return worldSize_; }
  const EngineOptions& options() const { return options_; }

  /// Agrees on the number of each tensor. All ranks declare the same tensors, in any order and at any time;
  /// waits for rank 0 only. Throws InvalidArgument, Unsupported, Mismatch, PeerLost, Timeout.
  /// Tensors of one group are declared together.
  std::vector<TensorHandle> declare(std::vector<TensorSpec> specs);

  /// declare() for a complete list that every rank must give alike and together, e.g. an optimizer's:
  /// compares the lists and shows the first difference (Mismatch). Waits for all ranks.
  std::vector<TensorHandle> agree(const std::string& listName, std::vector<TensorSpec> specs);

  /// agree() anew on tensors that exist, by names, counts and element types: to send them in another way,
  /// with another codec. Those that stay as they are keep their handle and their steps; the others' handles
  /// end, and their first step has the number 0 again. What codecs remember goes where the next encoding
  /// finds it (state_handover.h). Throws what agree() throws, and InvalidArgument if one is in flight or a
  /// handle is not that of the name.
  std::vector<AgreedAnew> agreeAnew(const std::string& listName, const std::vector<TensorHandle>& handles,
                                    std::vector<TensorSpec> specs);

  /// What was agreed on. Throws InvalidArgument for an unknown handle, NotInitialized after shutdown().
  std::shared_ptr<const Tensor> tensor(TensorHandle handle) const;

  /// Starts one synchronisation; returns at once. Every rank submits each tensor the same number of times.
  /// Throws DuplicateName if the tensor is in flight already, and whatever made the engine fail before. An
  /// operation that fails may have updated the tensor's states, or not: after a failure they belong to no
  /// step, and whoever goes on from a checkpoint takes them from there, or starts with none.
  OperationHandle submit(TensorHandle tensor, Submission submission);

  /// Declares an allgather or an alltoall and starts it; returns when rank 0 has answered. `spec` needs no
  /// count, its shape says what is the same on all ranks, and it is used once. Throws what declare() does;
  /// everything later goes to onDone.
  void moveBlocks(TensorSpec spec, BlockSubmission blocks);

  /// Whether the operation has ended (well or not).
  bool poll(OperationHandle operation);

  /// Waits for at most `slice`; false if it has not ended by then. When it has ended: forgets the handle and
  /// throws the operation's error, if it has one. `*absent`: no rank had values, the output was not written.
  bool wait(OperationHandle operation, Milliseconds slice, bool* absent = nullptr);

  /// The first failure ends the engine on all ranks: what is in flight and what comes later throws it.
  void fail(const Error& error);

  /// Says goodbye to the others, waits up to `linger` for theirs, and stops: what is still in flight ends
  /// with NotInitialized. Idempotent; a second caller waits for the first.
  void shutdown(Milliseconds linger);

  TransportCounters counters() const { return transport_->counters(); }
  RoundCounters roundCounters() const { return communication_.roundCounters(); }
  StateStore& states() { return states_; }
  BufferPool::Statistics poolStatistics() const { return pool_.statistics(); }
  DeviceQueue::Statistics deviceStatistics() const;  ///< Of all devices together.
  /// nullptr: nothing is recorded now.
  TraceRecorder* trace() const { return recording_.load(std::memory_order_acquire); }
  /// Records from now on; what was recorded before is forgotten.
  void startTrace();
  /// Appends what was recorded to a file, see TraceRecorder::appendTo(), and records no more.
  void stopTrace(const std::string& path);
  ControlPlane& control() { return *control_; }

 private:
  using OperationPointer = std::shared_ptr<Operation>;
  struct Entry {
    std::shared_ptr<const Tensor> tensor;
    uint32_t nextStep = 0;
    OperationPointer active;
    OperationPointer spare;  // of the last step: its memory is the next one's
    std::shared_ptr<DeviceQueue> device;
    Failure conflict;                    // ranks disagree on this tensor
    std::shared_ptr<TensorGroup> group;  // the tensor travels with others
    size_t member = 0;                   // of the group
  };

  /// Of a rank whose deadline has passed: does the other one wait itself?
  struct Question {
    uint32_t tensor;
    uint32_t step;
    uint32_t depth;  // how many messages must come before the one that has not come
  };

  std::shared_ptr<const Tensor> planned(TensorSpec spec, TensorHandle id) const;
  TensorHandle declareOne(TensorSpec spec, const std::string& ledgerName);
  TravellingPart partOf(TensorHandle handle) const;
  void declareGroup(TensorSpec together, std::vector<TensorHandle> members, const std::string& ledgerName);
  std::shared_ptr<TensorGroup> groupOf(TensorHandle handle) const;
  void submitSecondStep(TensorHandle handle, TensorSpec spec, const BlockSubmission& blocks, void* output,
                        const std::shared_ptr<void>& keepAlive);
  void compareLists(const std::string& listName, const std::vector<TensorSpec>& specs);
  void throwIfAnother(const std::string& listName, TensorHandle handle, const TensorSpec& next) const;
  bool travelsAsBefore(TensorHandle handle, const TensorSpec& next,
                       const std::vector<TensorHandle>& members) const;
  void throwIfFailed(const std::string& doing);
  void stop(Milliseconds linger);
  void throwIfInFlight(const Entry& entry) const;
  OperationPointer armed(Entry& entry);
  std::shared_ptr<GroupStep> joined(const Entry& entry, const OperationPointer& operation);
  void copyToGroup(const std::shared_ptr<TensorGroup>& group, const std::shared_ptr<GroupStep>& step,
                   size_t member);
  void endGroup(const TensorGroup& group, GroupStep& step, const Failure& failure, bool absent);
  OperationPointer travelling(const OperationPointer& operation) const;
  void openStates(Operation& operation);
  void start(const OperationPointer& operation);
  void end(const OperationPointer& operation, const Failure& failure);
  void forget(const OperationPointer& operation);
  bool watchDeadlines();
  void startNext(const Operation& ended);
  int priorityOf(const Operation& operation) const;
  void release(const OperationPointer& operation, TaskIndex task);
  void runCompute(const OperationPointer& operation, TaskIndex task, int lane);
  void startSend(const OperationPointer& operation, TaskIndex task);
  std::shared_ptr<DeviceQueue> deviceQueueFor(const Tensor& tensor);
  void enqueueCompute(const OperationPointer& operation, TaskIndex task);
  void onDeviceDone(const OperationPointer& operation, TaskIndex task, const Failure& failure);
  void computeFailed(const Operation& operation, const Task& task, const std::exception& error);
  static std::string workOfDevice(const Operation& operation);
  void closeDevices();
  void startRecv(const OperationPointer& operation, TaskIndex task);
  void completeTask(const OperationPointer& operation, TaskIndex task);
  void record(const Operation& operation, const Task& task, TraceTrack track, int lane, int64_t startNs,
              size_t bytes);
  void failTransfer(const OperationPointer& operation, TaskIndex task, const Failure& failure);
  void failWith(const Error& error, bool tellOthers);
  void listenForFailures();
  void tellPeers(const Error& error);
  void onNotice(const ControlNotice& notice);
  void onDeparture(int rank, const std::string& how, bool saidGoodbye);
  void checkDeadline(const OperationPointer& operation);
  void ask(const Operation& operation, const std::set<int>& peers);
  void listenForQuestions(int peer, uint32_t number);
  void answer(const Question& question);
  Error timeoutError(const Operation& operation) const;

  const int rank_;
  const int worldSize_;
  const EngineOptions options_;
  std::shared_ptr<ControlPlane> control_;
  const std::shared_ptr<TraceRecorder> recorder_;
  std::atomic<TraceRecorder*> recording_{nullptr};
  StateStore states_;
  BufferPool pool_;  // before everything that may hold its buffers
  Executor executor_;
  const DeviceExecutor deviceExecutor_;

  mutable std::mutex mutex_;  // guards what follows, up to the queues
  std::unordered_map<TensorHandle, Entry> tensors_;
  std::unordered_map<TensorHandle, Failure> earlyConflicts_;  // told of before declare() had its answer
  using Operations = std::unordered_map<OperationHandle, OperationPointer>;
  Operations operations_;
  std::vector<Operations::node_type> spareNodes_;  // of operations_
  OperationHandle nextOperation_ = 1;
  size_t unattended_ = 0;  // operations in flight that nobody waits for
  std::vector<std::shared_ptr<DeviceQueue>> deviceQueues_;
  std::deque<OperationPointer> inOrder_;  // without pipelining: the first is running
  struct Departure {
    int rank;
    std::string how;
  };
  std::vector<Departure> gone_;  // ranks that said goodbye or whose connection broke; the first one first
  Clock::time_point goneAt_{};   // the last of them
  std::vector<uint32_t> questionsTo_;  // how many this rank has asked, by peer
  Failure failure_;
  bool stopped_ = false;
  std::once_flag stopping_;

  std::unique_ptr<Transport> transport_;
  CommunicationQueue communication_;
  ComputeQueue compute_;
  DeadlineWatch deadlineWatch_;
};

}  // namespace hipress
