// SPDX-License-Identifier: Apache-2.0
//
// The work of threads, and its time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/simulation/step_simulation.h"

namespace hipress {
namespace {

/// Bytes. Smaller gradients travel as elements even to a neighbour that can read them, as in executor.cc.
constexpr double kSmallestReferred = 16384;
/// A thread asks for help if the task then takes less than this part of its time.
constexpr double kWorthHelp = 0.9;

}  // namespace

uint32_t StepSimulation::machineOf(uint32_t rank) const {
  if (symmetric_) return 0;
  const auto& cluster = description_.cluster;
  return static_cast<uint32_t>(cluster.machines[static_cast<size_t>(cluster.hosts[rank])]);
}

double StepSimulation::shareOf(const Instance& instance, TaskIndex task) const {
  const Tensor& tensor = tensors_[instance.tensor];
  return instance.graph->tasks[task].ownShare ? tensor.ownShare : tensor.otherShare;
}

/// Gives the thread its next jobs, if there are any.
void StepSimulation::beginNext(uint32_t number) {
  Thread& thread = threads_[number];
  // No recursion: thousands of jobs that take no time would nest as deeply.
  if (thread.choosing) return;
  thread.choosing = true;
  const uint32_t machine = machineOf(thread.rank);
  Job job;
  while (!thread.busy && takeJob(thread, job)) {
    job.began = now_;
    // The thread stays busy while this function computes the job's time and its helpers.
    thread.busy = true;
    const double seconds = secondsOf(number, job);
    if (seconds <= 0) {
      thread.busy = false;
      if (job.threads > 1) releaseHelpers(number);
      finish(number, job);
      continue;
    }
    job.seconds = seconds;
    thread.current = std::move(job);
    machines_[machine].begin(number, seconds, thread.current.threads, now_);
    watch(machine);
  }
  thread.choosing = false;
}

bool StepSimulation::takeJob(Thread& thread, Job& job) {
  for (auto* jobs : {&thread.ready, &thread.waiting}) {
    if (jobs->empty()) continue;
    job = std::move(jobs->front());
    jobs->pop_front();
    return true;
  }
  auto& queue = queued_[thread.rank];
  if (!thread.isLane || queue.empty()) return false;
  job = {queue.top().value.kind, queue.top().value.subject, queue.top().value.task};
  queue.pop();
  return true;
}

double StepSimulation::secondsOf(uint32_t thread, Job& job) {
  switch (job.kind) {
    case JobKind::kBackward:
      job.threads = description_.backwardThreads;
      return job.seconds;
    case JobKind::kSubmit:
      return description_.gradients[job.subject].members * description_.engine.submission +
             copySeconds(job.subject, threads_[thread].rank);
    case JobKind::kBefore:
      // The thread that has made the values submits them.
      return computeJobSeconds(thread, job) + description_.engine.submission;
    case JobKind::kTask:
    case JobKind::kBehind:
      return computeJobSeconds(thread, job);
    case JobKind::kSend:
      return sendSeconds(job.subject);
    case JobKind::kReceive:
      return receiveSeconds(job.chunk);
    case JobKind::kCopyBack: {
      const Instance& instance = instances_[job.subject];
      const double whole = copySeconds(instance.tensor, instance.rank);
      return symmetric_ ? whole / tensors_[instance.tensor].instances : whole;
    }
  }
  return 0;
}

/// Seconds to copy the values of a group's members into the group's memory, or back.
double StepSimulation::copySeconds(uint32_t number, uint32_t rank) const {
  const GradientDescription& gradient = description_.gradients[number];
  if (gradient.members < 2) return 0;
  const double bytes = static_cast<double>(gradient.elements) * gradient.elementBytes;
  const size_t busy = machines_[machineOf(rank)].busyWithOneMore();
  // Like a sum, a copy moves three times its size: the cache first reads the memory that it overwrites.
  return description_.engine.sum.seconds(bytes, 1, busy);
}

/// Seconds for which the job occupies its thread and its helpers.
double StepSimulation::computeJobSeconds(uint32_t number, Job& job) {
  const uint32_t rank = threads_[number].rank;
  const double share = job.kind == JobKind::kTask ? shareOf(instances_[job.subject], job.task) : 1;
  const size_t helpers = share > 0 ? helpersFor(number, job) : 0;
  const size_t busy = machines_[machineOf(rank)].busyWithOneMore() + helpers;
  const double computing = share * computeSeconds(job, 1 + helpers, busy);
  job.threads = static_cast<double>(1 + helpers);
  outcome_.ranks[rank].computing += computing * job.threads;
  for (uint32_t place = 2, asked = 0; asked < helpers; ++place) {
    Thread& lane = threads_[threadOf(rank, place)];
    if (lane.busy) continue;
    lane.busy = true;
    lane.helps = number;
    ++asked;
  }
  return threads_[number].isLane ? computing + share * description_.engine.task : computing;
}

void StepSimulation::releaseHelpers(uint32_t number) {
  const uint32_t rank = threads_[number].rank;
  for (uint32_t place = 2; place < threadsPerRank_; ++place) {
    Thread& lane = threads_[threadOf(rank, place)];
    if (lane.helps != number) continue;
    lane.helps = kNobody;
    lane.busy = false;
  }
}

/// The number of idle lanes that help with the job.
size_t StepSimulation::helpersFor(uint32_t number, const Job& job) const {
  const uint32_t rank = threads_[number].rank;
  const auto isFree = [this](const Thread& lane) { return lane.isLane && !lane.busy && lane.ready.empty(); };
  const auto first = threads_.begin() + threadOf(rank, 0);
  const auto idle = static_cast<size_t>(std::count_if(first, first + threadsPerRank_, isFree));
  const size_t others = idle > queued_[rank].size() ? idle - queued_[rank].size() : 0;
  if (others == 0) return 0;
  const double alone = computeSeconds(job, 1, 1);
  const double together = computeSeconds(job, 1 + others, 1);
  return together < kWorthHelp * alone && threads_[number].isLane ? others : 0;
}

bool StepSimulation::isLentWhole(const Tensor& tensor) const {
  return !description_.cluster.neighboursRead || tensor.partitionBytes < kSmallestReferred;
}

double StepSimulation::computeSeconds(const Job& job, size_t threads, size_t busy) const {
  if (job.kind == JobKind::kTask) return taskSeconds(instances_[job.subject], job.task, threads, busy);
  const WholeWork& work = workOf(job);
  return description_.computations[static_cast<size_t>(work.costs)].seconds(work.bytes, threads, busy);
}

/// Follows the executor (executor.cc, merge.cc).
double StepSimulation::taskSeconds(const Instance& instance, TaskIndex index, size_t threads,
                                   size_t busy) const {
  const SimulatedTask& task = instance.graph->tasks[index];
  const Tensor& tensor = tensors_[instance.tensor];
  const double bytes = tensor.partitionBytes;
  if (task.primitive != Primitive::kMerge) {
    const bool encodes = task.primitive == Primitive::kEncode;
    // A sum of two reads two bytes and writes one; to pack an element, a rank reads one and writes half of
    // one.
    if (encodes && task.own && tensor.packsOwn) return description_.engine.sum.seconds(bytes, 1, busy) / 2;
    // Raw elements go out from their place, and come in to their place, without a copy.
    if (tensor.raw || task.plain) return 0;
    return (encodes ? tensor.codec->encode : tensor.codec->decode).seconds(tensor.codecBytes, threads, busy);
  }
  const double sum = description_.engine.sum.seconds(bytes, 1, busy);
  const double read = isLentWhole(tensor) ? 0 : task.lentElements * bytes * description_.cluster.readByte;
  const double operands = task.elements + task.lentElements;
  // One pass over all operands: a sum of two reads two and writes one.
  if (tensor.raw) return sum * (operands + task.encoded + 1) / 3 + read;
  if (task.partial) return sum * (operands + 1) / 3 + read;
  // Decoded values are still in the cache, if they fit. Only the other values come from
  // memory.
  const double merge = tensor.codec->merge.seconds(tensor.codecBytes, threads, busy);
  const double decode = tensor.codec->decode.seconds(tensor.codecBytes, threads, busy);
  const double first = operands > 0 ? operands * sum / 2 : decode - merge;
  return first + task.encoded * merge + read;
}

void StepSimulation::watch(uint32_t machine) {
  const Processors& processors = machines_[machine];
  const double next = processors.working() ? processors.firstDone() : std::numeric_limits<double>::infinity();
  if (next == watched_[machine]) return;
  watched_[machine] = next;
  if (processors.working()) events_.push(next, EventKind::kProcessor, machine);
}

void StepSimulation::onProcessor(uint32_t machine) {
  if (watched_[machine] != now_ || !machines_[machine].working()) return;  // postponed, or over
  watched_[machine] = std::numeric_limits<double>::infinity();
  const ThreadIndex number = machines_[machine].finishFirst(now_);
  Thread& thread = threads_[number];
  thread.busy = false;
  const Job job = std::move(thread.current);
  if (job.kind != JobKind::kBackward) outcome_.ranks[thread.rank].cpu += job.seconds * job.threads;
  if (job.threads > 1) releaseHelpers(number);
  finish(number, job);
  beginNext(number);
  // Tasks may have become ready while the lanes helped.
  if (job.threads > 1 && job.kind != JobKind::kBackward) wakeLanes(thread.rank);
  watch(machine);
}

void StepSimulation::finish(uint32_t number, const Job& job) {
  switch (job.kind) {
    case JobKind::kBackward:
      outcome_.backward = now_;
      outcome_.step = std::max(outcome_.step, now_);
      return;
    case JobKind::kSubmit:
      return releaseTensor(number, threads_[number].rank, job.subject);
    case JobKind::kBefore:
      return startTensor(number, threads_[number].rank, job.subject);
    case JobKind::kTask:
      return finishTask(number, job);
    case JobKind::kSend:
      return putChunk(job.subject);
    case JobKind::kReceive:
      return received(job.chunk);
    case JobKind::kCopyBack:
      return endInstance(number, job.subject);
    case JobKind::kBehind:
      return endTensor(number, threads_[number].rank, job.subject);
  }
}

void StepSimulation::wakeLanes(uint32_t rank) {
  for (uint32_t place = 2; place < threadsPerRank_; ++place) beginNext(threadOf(rank, place));
}

void StepSimulation::finishTask(uint32_t number, const Job& job) {
  const Instance& instance = instances_[job.subject];
  if (shareOf(instance, job.task) < 1) {
    // It occupied the thread for its share of the time, and ends after the full time.
    const double ends = job.began + computeSeconds(job, 1, 1);
    if (ends > now_) return events_.push(ends, EventKind::kTaskDone, job.subject, job.task);
  }
  complete(number, job.subject, job.task);
}

}  // namespace hipress
