// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/tensor_table.h"

#include <map>
#include <string>
#include <utility>

#include "core/casync/agree/linked_specs.h"
#include "core/casync/compute/factor_values.h"
#include "core/casync/compute/summed_values.h"
#include "core/casync/graph/shares.h"

namespace hipress {

/// Throws InvalidArgument.
TensorTable::Entry& TensorTable::entryOf(TensorHandle handle) {
  const auto found = tensors_.find(handle);
  if (found == tensors_.end()) throw invalidArgument("there is no tensor " + std::to_string(handle));
  return found->second;
}

/// An entry that the table does not know yet.
TensorTable::Entry TensorTable::planned(TensorHandle handle, TensorSpec spec) {
  Entry entry;
  entry.tensor = std::make_shared<const Tensor>(std::move(spec), handle, plan_);
  entry.device = devices_.queueFor(*entry.tensor);
  seedByName(entry);
  return entry;
}

void TensorTable::enter(TensorHandle number, TensorSpec spec) {
  Entry anew = planned(number, std::move(spec));
  const MutexLock lock(mutex_);
  Entry& entry = tensors_[number];
  entry.number = number;
  // A second optimizer or module may declare the same tensor.
  if (!entry.isActive()) {
    entry.tensor = std::move(anew.tensor);
    entry.device = std::move(anew.device);
    entry.spare.reset();
    seedByName(entry);
  } else if (entry.device != anew.device) {
    throw invalidArgument("tensor '" + anew.tensor->spec().name +
                          "' is being synchronised; wait for it before it is declared on another device");
  }
  if (Failure early = numbers_.takeConflict(number)) entry.conflict = std::move(early);
}

void TensorTable::enterAtStep(TensorHandle number, TensorSpec spec, uint32_t step) {
  Entry entry = planned(number, std::move(spec));
  entry.number = number;
  entry.nextStep = step;
  const MutexLock lock(mutex_);
  if (Failure early = numbers_.takeConflict(number)) entry.conflict = std::move(early);
  tensors_[number] = std::move(entry);
}

std::vector<TensorHandle> TensorTable::announce(TensorSpec spec, std::vector<Declaration>& tensors) {
  std::vector<TensorHandle> handles;
  std::vector<Entry> entries;
  const auto add = [&](TensorSpec each) {
    tensors.push_back({each.name, each.describe(), each.transient});
    {
      const MutexLock lock(mutex_);
      do {
        handles.push_back(numbers_.nextHandle());
      } while (tensors_.contains(handles.back()));
    }
    entries.push_back(planned(handles.back(), std::move(each)));
  };
  add(std::move(spec));
  if (const auto whole = entries.front().tensor; whole->isLinked()) {
    auto [first, second] = linkedSpecs(*whole);
    add(std::move(first));
    add(std::move(second));
    entries.front().linked = {handles[1], handles[2]};
  }
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < handles.size(); ++i) tensors_[handles[i]] = std::move(entries[i]);
  return handles;
}

std::optional<TensorTable::Begun> TensorTable::number(const std::vector<TensorHandle>& announced,
                                                      const std::vector<uint32_t>& numbers) {
  OperationPointer conflicting;
  Failure conflict;
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < announced.size(); ++i) {
      const auto found = tensors_.find(announced[i]);
      if (found == tensors_.end()) return std::nullopt;  // shutdown() has dropped it
      found->second.number = numbers[i];
      numbers_.add(numbers[i], announced[i]);
      if (Failure early = numbers_.takeConflict(numbers[i])) found->second.conflict = std::move(early);
    }
    Entry& entry = tensors_.at(announced.front());
    if (!entry.awaiting) return std::nullopt;
    Begun begun = *std::exchange(entry.awaiting, std::nullopt);
    numberOperation(entry, *begun.operation);
    begun.awaitsNumber = false;
    if (!entry.conflict) return begun.operation->finished() ? std::nullopt : std::optional(std::move(begun));
    conflicting = std::move(begun.operation);
    conflict = entry.conflict;
  }
  end(conflicting, conflict);
  return std::nullopt;
}

void TensorTable::refuse(const std::vector<TensorHandle>& announced, const Failure& failure) {
  OperationPointer refused;
  {
    const MutexLock lock(mutex_);
    for (const TensorHandle handle : announced) {
      const auto found = tensors_.find(handle);
      if (found == tensors_.end()) continue;
      if (handle != announced.front()) {
        tensors_.erase(found);  // no operation of a linked tensor will begin
        continue;
      }
      found->second.conflict = failure;
      if (auto awaiting = std::exchange(found->second.awaiting, std::nullopt))
        refused = std::move(awaiting->operation);
    }
  }
  if (refused != nullptr) end(refused, failure);
}

void TensorTable::numberOperation(const Entry& entry, Operation& operation) {
  operation.setNumber(entry.number);
  operation.values().randomTensor = entry.randomTensor.value_or(entry.number);
}

void TensorTable::drop(Tensors::iterator entry) {
  numbers_.remove(entry->second.number);
  tensors_.erase(entry);
}

void TensorTable::seedByName(Entry& entry) {
  const std::string& name = entry.tensor->spec().lastingName;
  if (!entry.randomTensor && !name.empty()) entry.randomTensor = numberOfName(name);
}

void TensorTable::enterGroup(TensorHandle together, const std::vector<TensorHandle>& members) {
  auto group = std::make_shared<TensorGroup>();
  const MutexLock lock(mutex_);
  group->tensor = entryOf(together).tensor;
  size_t first = 0;
  for (const TensorHandle handle : members) {
    Entry& entry = tensors_.at(handle);
    const TensorSpec& spec = entry.tensor->spec();
    group->name = spec.group();
    entry.group = group;
    entry.member = group->members.size();
    group->members.push_back({handle, spec.name, {first, static_cast<size_t>(spec.count)}});
    first += static_cast<size_t>(spec.count);
  }
}

void TensorTable::enterLinked(TensorHandle tensor, TensorHandle first, TensorHandle second) {
  const MutexLock lock(mutex_);
  entryOf(tensor).linked = {first, second};
}

std::vector<TensorHandle> TensorTable::linkedOf(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  return entryOf(handle).linked;
}

void TensorTable::remove(const std::set<TensorHandle>& handles) {
  const MutexLock lock(mutex_);
  for (const TensorHandle handle : handles) {
    if (const auto entry = tensors_.find(handle); entry != tensors_.end()) drop(entry);
  }
}

std::shared_ptr<const Tensor> TensorTable::tensor(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  if (job_.stopped()) throw Error(ErrorKind::kNotInitialized, "the engine is shut down");
  return entryOf(handle).tensor;
}

bool TensorTable::isInFlight(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  return entryOf(handle).isActive();
}

SentRange TensorTable::sentRange(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  const Entry& entry = entryOf(handle);
  if (entry.group != nullptr) return {entry.group->tensor, entry.group->members[entry.member].range};
  return {entry.tensor, {0, static_cast<size_t>(entry.tensor->spec().count)}};
}

std::vector<TensorHandle> TensorTable::groupOf(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  const Entry& entry = entryOf(handle);
  if (entry.group == nullptr) return {};
  std::vector<TensorHandle> handles = {entry.group->tensor->id()};
  for (const auto& member : entry.group->members) handles.push_back(member.handle);
  return handles;
}

SentSteps TensorTable::steps(TensorHandle handle) const {
  const MutexLock lock(mutex_);
  const Entry& entry = entryOf(handle);
  return {entry.nextStep, entry.randomTensor.value_or(entry.number)};
}

void TensorTable::setSteps(TensorHandle handle, const SentSteps& steps) {
  const MutexLock lock(mutex_);
  Entry& entry = entryOf(handle);
  entry.nextStep = steps.next;
  entry.randomTensor = steps.randomTensor;
}

TensorTable::Begun TensorTable::begin(TensorHandle handle, Submission&& submission) {
  Begun begun;
  const MutexLock lock(mutex_);
  job_.throwIfEnded();
  Entry& entry = entryOf(handle);
  if (entry.conflict) throw *entry.conflict;
  throwIfInFlight(entry);
  begun.operation = unarmed(entry);
  // These calls may throw, so they come before the table knows the operation.
  begun.operation->values().openStates(states_);
  numberOperation(entry, *begun.operation);
  if (submission.verdict != nullptr) {
    submission.verdict->join();
  } else if (entry.bySteps != nullptr) {
    submission.verdict = entry.bySteps->join(handle);
  }
  if (!entry.linked.empty()) {
    begun.linked = std::make_shared<LinkedStep>(begun.operation, entry.linked[0], entry.linked[1],
                                                linkedValues(begun.operation->values()));
    begun.operation->joinLinked(begun.linked);
  }
  begun.operation->arm(nextOperation_++, entry.nextStep++, std::move(submission));
  if (entry.group != nullptr) join(begun, entry);
  entry.active = begun.operation;
  begun.needsWatch = begun.operation->hasCallback() && unattended_++ == 0;
  insert(begun.operation);
  begun.awaitsNumber = entry.number == 0;
  if (begun.awaitsNumber) entry.awaiting = begun;
  return begun;
}

/// An operation for the tensor's next step, without values.
OperationPointer TensorTable::unarmed(Entry& entry) {
  OperationPointer operation = std::exchange(entry.spare, nullptr);
  // The last step's callbacks may still hold the spare. Or the tensor has been planned anew since.
  const bool isFree =
      operation != nullptr && operation.use_count() == 1 && &operation->tensor() == entry.tensor.get();
  if (!isFree) return std::make_shared<Operation>(entry.tensor, entry.device);
  OperationPointer(operation).reset();  // synchronises with the callbacks: their writes are visible now
  return operation;
}

void TensorTable::multiplyStates(const std::vector<TensorHandle>& handles, float factor) {
  std::map<TensorHandle, OperationPointer> kept;
  {
    const MutexLock lock(mutex_);
    job_.throwIfEnded();
    for (const TensorHandle handle : handles) {
      const Entry& entry = entryOf(handle);
      // The states of a group's members are those of the group's tensor.
      const Entry& sent = entry.group == nullptr ? entry : entryOf(entry.group->tensor->id());
      if (entry.isActive() || sent.isActive()) {
        throw invalidArgument("tensor '" + entry.tensor->spec().name +
                              "' is being synchronised: its states change their unit between steps only");
      }
      if (sent.tensor->keepsStates())
        kept.try_emplace(sent.tensor->id(), std::make_shared<Operation>(sent.tensor, sent.device));
    }
  }
  for (const auto& [handle, operation] : kept) {
    operation->values().openStates(states_);
    operation->values().multiplyStates(factor);
  }
}

void TensorTable::settleBySteps(const std::vector<TensorHandle>& handles) {
  const MutexLock lock(mutex_);
  std::shared_ptr<VerdictByStep> steps;
  for (const TensorHandle handle : handles) {
    Entry& entry = entryOf(handle);
    if (steps == nullptr)
      steps = entry.bySteps == nullptr ? std::make_shared<VerdictByStep>() : entry.bySteps;
    if (entry.bySteps != nullptr && entry.bySteps != steps) entry.bySteps->end();
    entry.bySteps = steps;
  }
}

bool TensorTable::endStep(TensorHandle handle) {
  const MutexLock lock(mutex_);
  const auto& steps = entryOf(handle).bySteps;
  return steps == nullptr || steps->end();
}

std::unique_ptr<LinkedValues> TensorTable::linkedValues(StepValues& values) const {
  if (values.tensor->factoring())
    return std::make_unique<FactorValues>(pool_, values, values.tensor->ranks());
  return std::make_unique<SummedValues>(pool_, values, plan_.seed, plan_.rank);
}

void TensorTable::join(Begun& begun, const Entry& entry) {
  std::shared_ptr<GroupStep>& gathering = tensors_.at(entry.group->tensor->id()).gathering;
  if (gathering == nullptr) gathering = std::make_shared<GroupStep>(entry.group, pool_, entry.device);
  begun.group = gathering;
  begun.member = entry.member;
  begun.operation->joinGroup(gathering);
  // All members have joined: the next submission of a member begins the group's next step.
  if (gathering->join(entry.member, begun.operation)) gathering = nullptr;
}

void TensorTable::insert(const OperationPointer& operation) {
  if (spareNodes_.empty()) {
    operations_.emplace(operation->handle(), operation);
    return;
  }
  auto node = std::move(spareNodes_.back());
  spareNodes_.pop_back();
  node.key() = operation->handle();
  node.mapped() = operation;
  operations_.insert(std::move(node));
}

/// A transient tensor may be declared twice. Both may be in flight together only if the tensor keeps no
/// states, because states are found by the tensor's name.
void TensorTable::throwIfInFlight(const Entry& entry) const {
  const Tensor& tensor = *entry.tensor;
  bool inFlight = entry.isActive();
  if (tensor.spec().transient && tensor.keepsStates()) {
    for (const auto& [handle, other] : operations_) {
      inFlight |= !other->finished() && other->tensor().spec().name == tensor.spec().name;
    }
  }
  if (!inFlight) return;
  throw Error(ErrorKind::kDuplicateName,
              "tensor '" + tensor.spec().name +
                  "' is being synchronised already; wait for it first, or give the second one another name");
}

OperationPointer TensorTable::find(OperationHandle handle) const {
  const MutexLock lock(mutex_);
  const auto found = operations_.find(handle);
  return found == operations_.end() ? nullptr : found->second;
}

void TensorTable::end(const OperationPointer& operation, const Failure& failure) {
  if (!operation->finish(failure) || !operation->hasCallback()) return;
  OnDone onDone;
  {
    const MutexLock lock(mutex_);
    onDone = operation->takeCallback();
    --unattended_;
    erase(operation);
  }
  onDone(failure, operation->absent());
}

void TensorTable::forget(const OperationPointer& operation) {
  const MutexLock lock(mutex_);
  erase(operation);
}

void TensorTable::erase(const OperationPointer& operation) {
  if (auto node = operations_.extract(operation->handle())) {  // shutdown() may have forgotten it already
    node.mapped().reset();
    spareNodes_.push_back(std::move(node));
  }
  const auto entry = tensors_.find(operation->tensor().id());
  if (entry == tensors_.end() || entry->second.active != operation) return;
  entry->second.spare = std::move(entry->second.active);
  if (operation->tensor().spec().transient) drop(entry);
}

std::vector<OperationPointer> TensorTable::unattended() const {
  std::vector<OperationPointer> result;
  const MutexLock lock(mutex_);
  if (unattended_ == 0) return result;
  for (const auto& [handle, operation] : operations_) {
    if (operation->hasCallback()) result.push_back(operation);
  }
  return result;
}

std::vector<OperationPointer> TensorTable::ofCallers() const {
  std::vector<OperationPointer> result;
  const MutexLock lock(mutex_);
  for (const auto& [handle, operation] : operations_) {
    if (!operation->isInner() && !operation->finished()) result.push_back(operation);
  }
  return result;
}

std::pair<std::shared_ptr<const Tensor>, uint32_t> TensorTable::numbered(uint32_t number) const {
  const MutexLock lock(mutex_);
  const auto found = tensors_.find(numbers_.handleOf(number));
  if (found == tensors_.end()) return {nullptr, 0};
  return {found->second.tensor, found->second.nextStep};
}

void TensorTable::clear() {
  Operations operations;
  Tensors tensors;
  {
    const MutexLock lock(mutex_);
    operations.swap(operations_);
    tensors.swap(tensors_);
  }
  const Failure ended = std::make_shared<Error>(ErrorKind::kNotInitialized, "the engine was shut down");
  for (auto& [handle, operation] : operations) end(operation, ended);
  // Releases the callers' memory without the lock: the release may run any code, including Python's.
}

std::vector<std::shared_ptr<const AwaitedOperation>> TensorTable::unfinished() const {
  std::vector<std::shared_ptr<const AwaitedOperation>> result;
  const MutexLock lock(mutex_);
  for (const auto& [handle, operation] : operations_) {
    if (!operation->finished()) result.push_back(operation);
  }
  return result;
}

bool TensorTable::hasSubmitted(uint32_t tensor, uint32_t step) const {
  const MutexLock lock(mutex_);
  const auto found = tensors_.find(numbers_.handleOf(tensor));
  return found != tensors_.end() && found->second.nextStep > step;
}

void TensorTable::endAll(const Failure& failure) {
  std::vector<OperationPointer> inFlight;
  {
    const MutexLock lock(mutex_);
    for (const auto& [handle, operation] : operations_) inFlight.push_back(operation);
  }
  for (const auto& operation : inFlight) end(operation, failure);
}

/// A conflict concerns this tensor only. Messages of peers for it stay in the transport, and the transport
/// keeps their memory alive.
void TensorTable::endConflicting(uint32_t tensor, const Failure& failure) {
  OperationPointer active;
  {
    const MutexLock lock(mutex_);
    const auto found = tensors_.find(numbers_.handleOf(tensor));
    if (found == tensors_.end()) {
      numbers_.keepConflict(tensor, failure);
      return;
    }
    found->second.conflict = failure;
    active = found->second.active;
  }
  if (!active) return;
  end(active, failure);
  onConflict_(active);
}

}  // namespace hipress
