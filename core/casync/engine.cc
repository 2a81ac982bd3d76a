// SPDX-License-Identifier: Apache-2.0
//
// Submission and waiting. How ranks agree on tensors is in engine_agreement.cc, how an operation's tasks run
// in engine_tasks.cc, deadlines in engine_deadlines.cc, how failures spread in engine_failures.cc.
#include "core/casync/engine.h"
#include "core/casync/tensor_group.h"

#include <algorithm>
#include <utility>

namespace hipress {

namespace {

constexpr Milliseconds kLingerAfterFailure{1000};

/// For the coordinator's answer. A round that it does not plan in time is begun without it.
constexpr Milliseconds kPlanTimeout{10};

/// "For ever" must stay a time that can be added to now.
Milliseconds bounded(Milliseconds time) {
  return std::min<Milliseconds>(time, std::chrono::hours(24 * 365));
}

EngineOptions checked(EngineOptions options) {
  options.timeout = bounded(options.timeout);
  return options;
}

}  // namespace

Engine::Engine(std::shared_ptr<ControlPlane> control, std::unique_ptr<Transport> transport,
               EngineOptions options)
    : rank_(transport->rank()),
      worldSize_(transport->worldSize()),
      options_(checked(std::move(options))),
      control_(std::move(control)),
      recorder_(options_.trace ? options_.trace : std::make_shared<TraceRecorder>(rank_)),
      recording_(options_.trace.get()),
      executor_(pool_, compute_, options_.seed, rank_, options_.readable),
      deviceExecutor_(options_.seed, rank_),
      questionsTo_(static_cast<size_t>(worldSize_)),
      transport_(std::move(transport)),
      communication_(*transport_, options_.communication,
                     [this](const auto& waiting) { return control_->planRound(waiting, kPlanTimeout); }),
      compute_(options_.computeThreads),
      deadlineWatch_([this] { return watchDeadlines(); }) {
  transport_->onPeerFailure([this](int peer, const std::string& reason) {
    onDeparture(peer, "rank " + std::to_string(peer) + " was lost (" + reason + ")", false);
  });
  control_->onNotice([this](const ControlNotice& notice) { onNotice(notice); });
  listenForFailures();
  for (int peer = 0; peer < worldSize_; ++peer) {
    if (peer != rank_) listenForQuestions(peer, 1);
  }
}

Engine::~Engine() {
  shutdown(Milliseconds(0));
}

std::shared_ptr<const Tensor> Engine::tensor(TensorHandle handle) const {
  const std::lock_guard lock(mutex_);
  if (stopped_) throw Error(ErrorKind::kNotInitialized, "the engine is shut down");
  const auto found = tensors_.find(handle);
  if (found == tensors_.end()) throw invalidArgument("there is no tensor " + std::to_string(handle));
  return found->second.tensor;
}

OperationHandle Engine::submit(TensorHandle handle, Submission submission) {
  OperationPointer operation;
  OperationHandle result = 0;
  std::shared_ptr<TensorGroup> group;
  std::shared_ptr<GroupStep> step;
  size_t member = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tensors_.find(handle);
    if (failure_) throw *failure_;
    if (stopped_) throw Error(ErrorKind::kNotInitialized, "the engine is shut down");
    if (found == tensors_.end()) throw invalidArgument("there is no tensor " + std::to_string(handle));
    Entry& entry = found->second;
    if (entry.conflict) throw *entry.conflict;
    throwIfInFlight(entry);
    operation = armed(entry);
    // May throw: before anything says that the operation exists.
    openStates(*operation);
    if (entry.group != nullptr) {
      group = entry.group;
      step = joined(entry, operation);
      member = entry.member;
    }
    ++entry.nextStep;
    operation->input = static_cast<const std::byte*>(submission.input);
    operation->output = static_cast<std::byte*>(submission.output);
    operation->ready = submission.ready;
    operation->keepAlive = std::move(submission.keepAlive);
    operation->submitted = Clock::now();
    operation->asked = {};
    operation->onDone = std::move(submission.onDone);
    entry.active = operation;
    result = nextOperation_++;
    operation->handle = result;
    if (operation->onDone && unattended_++ == 0) deadlineWatch_.begin();
    if (spareNodes_.empty()) {
      operations_.emplace(result, operation);
    } else {
      auto node = std::move(spareNodes_.back());
      spareNodes_.pop_back();
      node.key() = result;
      node.mapped() = operation;
      operations_.insert(std::move(node));
    }
    if (group == nullptr && !options_.pipelining) {
      inOrder_.push_back(operation);
      if (inOrder_.size() > 1) return result;
    }
  }
  if (group != nullptr) {
    copyToGroup(group, step, member);
  } else {
    start(operation);
  }
  return result;
}

/// The operation of the tensor's next step. Called with the mutex held.
Engine::OperationPointer Engine::armed(Entry& entry) {
  OperationPointer operation = std::exchange(entry.spare, nullptr);
  // The last step's callbacks may still hold it for a moment; and the tensor may be planned anew.
  const bool mine = operation != nullptr && operation.use_count() == 1 && operation->tensor == entry.tensor;
  if (mine) {
    OperationPointer(operation).reset();  // what they wrote before they let go of it is seen from here on
  } else {
    operation = std::make_shared<Operation>(entry.tensor);
    if (entry.device) operation->device = std::make_unique<DeviceValues>(entry.device, *entry.tensor);
  }
  operation->arm(entry.nextStep);
  return operation;
}

void Engine::openStates(Operation& operation) {
  const Tensor& tensor = *operation.tensor;
  if (!tensor.keepsStates()) return;
  // What the last step opened holds as long as nobody has cut or taken states.
  const uint64_t generation = states_.generation();
  if (operation.workerStates != nullptr && operation.statesGeneration == generation) return;
  const auto place = operation.device ? operation.device->queue->states() : nullptr;
  operation.workerStates = states_.open(tensor.spec.name, StateRole::kWorker, tensor.codec->states(),
                                        tensor.partitionCounts(), place);
  operation.aggregatorStates = states_.open(tensor.spec.name, StateRole::kAggregator,
                                            tensor.aggregateCodec->states(), tensor.partitionCounts(), place);
  operation.statesGeneration = generation;
}

/// Also another tensor of the same name (transient ones may be declared twice) if the two would share
/// states. Called with the mutex held.
void Engine::throwIfInFlight(const Entry& entry) const {
  const Tensor& tensor = *entry.tensor;
  bool inFlight = entry.active && !entry.active->finished();
  if (tensor.spec.transient && tensor.keepsStates()) {
    for (const auto& [handle, other] : operations_) {
      inFlight |= !other->finished() && other->tensor->spec.name == tensor.spec.name;
    }
  }
  if (!inFlight) return;
  throw Error(ErrorKind::kDuplicateName,
              "tensor '" + tensor.spec.name +
                  "' is being synchronised already; wait for it first, or give the second one another name");
}

bool Engine::poll(OperationHandle handle) {
  OperationPointer operation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) return true;
    operation = found->second;
  }
  if (!operation->finished()) checkDeadline(operation);
  return operation->finished();
}

bool Engine::wait(OperationHandle handle, Milliseconds slice, bool* absent) {
  OperationPointer operation;
  {
    const std::lock_guard lock(mutex_);
    const auto found = operations_.find(handle);
    if (found == operations_.end()) {
      if (failure_) throw *failure_;
      if (stopped_) throw Error(ErrorKind::kNotInitialized, "the engine was shut down");
      throw invalidArgument("there is no operation " + std::to_string(handle) +
                            "; it may have been waited for already");
    }
    operation = found->second;
  }
  const auto until = Clock::now() + bounded(slice);
  while (!operation->finished()) {
    const auto now = Clock::now();
    if (now >= until) return false;
    checkDeadline(operation);
    // A rank that leaves moves the deadline: look again from time to time.
    operation->waitUntil(std::min(until, now + Milliseconds(250)));
  }
  {
    const std::lock_guard lock(mutex_);
    forget(operation);
  }
  if (const Failure failure = operation->failure()) throw *failure;
  if (absent != nullptr) *absent = operation->absent.load(std::memory_order_relaxed);
  return true;
}

/// Somebody has learned how it ended: its memory serves the tensor's next step. Called with the mutex held.
void Engine::forget(const OperationPointer& operation) {
  if (auto node = operations_.extract(operation->handle)) {  // unless shutdown() has forgotten it
    node.mapped().reset();
    spareNodes_.push_back(std::move(node));
  }
  const auto entry = tensors_.find(operation->tensor->id);
  if (entry == tensors_.end() || entry->second.active != operation) return;
  entry->second.spare = std::move(entry->second.active);
  if (operation->tensor->spec.transient) tensors_.erase(entry);
}

void Engine::end(const OperationPointer& operation, const Failure& failure) {
  if (!operation->finish(failure) || !operation->onDone) return;
  OnDone onDone;
  {
    const std::lock_guard lock(mutex_);
    onDone = std::exchange(operation->onDone, nullptr);
    --unattended_;
    forget(operation);
  }
  onDone(failure, operation->absent.load(std::memory_order_relaxed));
}

void Engine::startTrace() {
  recorder_->begin();
  recording_.store(recorder_.get(), std::memory_order_release);
}

void Engine::stopTrace(const std::string& path) {
  recording_.store(nullptr, std::memory_order_release);
  recorder_->appendTo(path);
}

void Engine::shutdown(Milliseconds linger) {
  std::call_once(stopping_, [&] { stop(bounded(linger)); });
}

void Engine::stop(Milliseconds linger) {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    // After a failure nothing is on its way that anybody could use: only the others' news of it.
    if (failure_) linger = std::min(linger, kLingerAfterFailure);
  }
  try {
    // Others may still be receiving what this rank sent: its transport stays up until they have left, too.
    control_->leave(linger);
  } catch (const Error&) {
    // The control plane was closed by somebody else. That ends the lingering, not the stopping: threads that
    // know this engine must not outlive it.
  }
  control_->onNotice(nullptr);
  deadlineWatch_.stop();
  compute_.stop();
  communication_.stop();
  transport_->close();
  control_->close();
  closeDevices();
  std::unordered_map<OperationHandle, OperationPointer> operations;
  std::unordered_map<TensorHandle, Entry> tensors;
  {
    const std::lock_guard lock(mutex_);
    operations.swap(operations_);
    inOrder_.clear();
    tensors.swap(tensors_);
  }
  const Failure ended = std::make_shared<Error>(ErrorKind::kNotInitialized, "the engine was shut down");
  for (auto& [handle, operation] : operations) this->end(operation, ended);
  // Without the lock, callers' memory is let go of here: that may run any code, Python's among it.
}

}  // namespace hipress
