// SPDX-License-Identifier: Apache-2.0
//
// One step as a sequence of events: gradients are released, threads finish work, chunks leave and arrive.
// Each rank has the engine's threads: the thread that submits, the transport's one, and the lanes of Q_comp.
//
// If one rank stands for all, its graphs have as many partitions as ranks, or a multiple. A tensor with fewer
// partitions counts for a share: each task and message occupies threads and links for that share of its time,
// and ends after the full time. See representativeGraph().
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/priority_heap.h"
#include "core/casync/send/link_queue.h"
#include "core/simulation/event_queue.h"
#include "core/simulation/network.h"
#include "core/simulation/processors.h"
#include "core/simulation/rank_graph.h"
#include "core/simulation/step_description.h"

namespace hipress {

class StepSimulation {
 public:
  explicit StepSimulation(const StepDescription& description);

  StepOutcome run();

 private:
  static constexpr uint32_t kNobody = 0xffffffff;
  /// One gradient, planned like the engine's.
  struct Tensor {
    double partitionBytes = 0;
    double codecBytes = 0;    // in float32, the type that codecs get
    double encodedBytes = 0;  // of a partition
    double ownBytes = 0;      // of a rank's own values
    double elements = 0;      // of a partition
    bool raw = true;
    bool packsOwn = false;
    const CodecCosts* codec = nullptr;
    uint32_t firstInstance = 0;
    uint32_t instances = 0;            // one per rank, or per multiple of the world size
    uint32_t unfinishedInstances = 0;  // of a rank, if one stands for all
    uint32_t unfinished = 0;           // ranks
    std::vector<uint32_t> followers;   // the tensors that the end of this one releases
    double ownShare = 1;               // if rank 0 stands for all: share of its own partitions, and of others
    double otherShare = 1;
  };
  /// A tensor on one rank.
  struct Instance {
    const RankGraph* graph = nullptr;
    uint32_t tensor = 0;
    uint32_t rank = 0;
    uint32_t unfinished = 0;
    size_t firstPending = 0;
  };
  enum class JobKind : uint8_t { kBackward, kSubmit, kBefore, kTask, kSend, kReceive, kCopyBack, kBehind };
  struct Job {
    JobKind kind = JobKind::kTask;
    uint32_t subject = 0;  // tensor, instance, or connection
    uint32_t task = 0;
    double seconds = 0;  // kBackward; for other kinds set at the start
    double threads = 1;  // number of threads that it occupies
    double began = 0;
    Chunk chunk{};  // for kReceive
  };
  struct Thread {
    uint32_t rank = 0;
    bool isLane = false;
    bool busy = false;
    bool choosing = false;     // is choosing its next job
    uint32_t helps = kNobody;  // the thread whose task it helps with
    Job current;
    std::deque<Job> ready;    // tasks that became ready here and are too small for another thread
    std::deque<Job> waiting;  // not for lanes
  };
  struct TaskName {
    uint32_t instance = 0;
    TaskIndex task = 0;
  };
  /// What waits for a lane: a task, or a computation for a whole tensor.
  struct Queued {
    JobKind kind = JobKind::kTask;
    uint32_t subject = 0;
    TaskIndex task = 0;
  };
  struct Connection {
    LinkQueue queue;
    std::deque<uint32_t> flights;  // with the transport, not sent completely
    size_t chunksPut = 0;          // of the first flight
    bool asks = false;             // the transport's thread has to send
    bool lingers = false;
  };
  struct Flight : LinkQueue::Flight {
    uint32_t connection = 0;
    double arriving = 0;  // bytes
    double whole = 0;     // bytes, if its messages counted in full
    double times = 1;     // factor of its processor time, compared with its link's costs
    size_t chunks = 1;
    double began = 0;
  };
  using GraphKey = std::tuple<std::string, size_t, int, bool>;

  // step_setup.cc
  void check() const;
  void addTensors();
  void addTensor(uint32_t number, size_t partitions, int firstRank);
  void giveShares();
  const std::vector<RankGraphPointer>& graphs(const std::string& topology, size_t partitions, int firstRank,
                                              bool mergesDecoded);
  void addThreads();
  void addReleases();

  // step_compute.cc
  uint32_t threadOf(uint32_t rank, uint32_t place) const { return rank * threadsPerRank_ + place; }
  uint32_t machineOf(uint32_t rank) const;
  void beginNext(uint32_t thread);
  bool takeJob(Thread& thread, Job& job);
  double secondsOf(uint32_t thread, Job& job);
  double computeJobSeconds(uint32_t thread, Job& job);
  void releaseHelpers(uint32_t thread);
  double computeSeconds(const Job& job, size_t threads, size_t busy) const;
  double taskSeconds(const Instance& instance, TaskIndex task, size_t threads, size_t busy) const;
  double copySeconds(uint32_t tensor, uint32_t rank) const;
  double shareOf(const Instance& instance, TaskIndex task) const;
  bool isLentWhole(const Tensor& tensor) const;
  size_t helpersFor(uint32_t thread, const Job& job) const;
  void onProcessor(uint32_t machine);
  void watch(uint32_t machine);
  void finish(uint32_t thread, const Job& job);
  void finishTask(uint32_t thread, const Job& job);
  void wakeLanes(uint32_t rank);

  // step_whole.cc
  void releaseTensor(uint32_t thread, uint32_t rank, uint32_t tensor);
  void beginWork(uint32_t thread, uint32_t rank, uint32_t tensor, JobKind kind);
  const WholeWork& workOf(const Job& job) const;
  void endInstance(uint32_t thread, uint32_t instance);
  void endTensor(uint32_t thread, uint32_t rank, uint32_t tensor);

  // step_tasks.cc
  void startTensor(uint32_t thread, uint32_t rank, uint32_t tensor);
  void clear(uint32_t thread, uint32_t instance, TaskIndex task);
  void release(uint32_t thread, uint32_t instance, TaskIndex task);
  void enqueue(uint32_t thread, uint32_t rank, int priority, const Queued& queued);
  int priorityOf(uint32_t tensor) const {
    return description_.settings.priorities ? description_.gradients[tensor].priority : 0;
  }
  void complete(uint32_t thread, uint32_t instance, TaskIndex task);
  /// The task that sends the message.
  static TaskName senderOf(const LinkQueue::Message& message) {
    return {static_cast<uint32_t>(message.name >> 32), static_cast<TaskIndex>(message.name)};
  }
  double arrivingShareOf(const LinkQueue::Message& message) const;
  LinkQueue::Time linkTime() const { return LinkQueue::Time(std::chrono::duration<double>(now_)); }
  void send(uint32_t instance, TaskIndex task);
  void dispatch(uint32_t connection);
  void offer(uint32_t connection);
  double sendSeconds(uint32_t connection) const;
  void putChunk(uint32_t connection);
  void flightSent(uint32_t flight);
  double receiveSeconds(const Chunk& chunk) const;
  void received(const Chunk& chunk);
  void deliver(uint32_t flight);
  uint32_t receiverOf(const Flight& flight) const;
  uint32_t transportThread(uint32_t rank) const { return threadOf(rank, 1); }

  StepOutcome outcome() const;

  const StepDescription& description_;
  const bool symmetric_;
  const uint32_t seen_;  // number of simulated ranks
  const uint32_t threadsPerRank_;
  double now_ = 0;
  EventQueue events_;
  std::unique_ptr<RankGrid> grid_;  // if one rank stands for all
  std::unique_ptr<Network> network_;
  std::vector<Processors> machines_;
  std::vector<double> watched_;  // by machine: the time of its next event
  std::map<GraphKey, std::vector<RankGraphPointer>> graphs_;
  std::vector<Tensor> tensors_;
  std::vector<Instance> instances_;
  std::vector<uint32_t> pending_;
  std::vector<Thread> threads_;
  std::vector<PriorityHeap<Queued>> queued_;  // by rank
  std::vector<Connection> connections_;
  std::vector<Flight> flights_;
  std::vector<uint32_t> freeFlights_;
  uint64_t sequence_ = 0;
  StepOutcome outcome_;
};

}  // namespace hipress
