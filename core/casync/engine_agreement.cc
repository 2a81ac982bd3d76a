// SPDX-License-Identifier: Apache-2.0
//
// How ranks agree on tensors: at first, and again when they are to be sent in another way.
#include <algorithm>
#include <utility>

#include "core/casync/agreement.h"
#include "core/casync/engine.h"

namespace hipress {

/// Of a tensor that is not cut for overlap's sake, only to share out its aggregation.
constexpr size_t kUnlimitedPartition = size_t{1} << 50;

std::shared_ptr<const Tensor> Engine::planned(TensorSpec spec, TensorHandle id) const {
  TensorPlan plan;
  plan.rank = rank_;
  plan.worldSize = worldSize_;
  plan.partitionBytes = options_.pipelining ? options_.partitionBytes : kUnlimitedPartition;
  plan.hosts = options_.hosts;
  return planTensor(std::move(spec), id, plan);
}

/// The name by which rank 0 knows the tensor is its own, or another if it is agreed on again.
TensorHandle Engine::declareOne(TensorSpec spec, const std::string& ledgerName) {
  checkSpec(spec, worldSize_);
  throwIfFailed("declaring tensor '" + spec.name + "'");
  const uint32_t id = control_->declare(ledgerName, spec.describe(), spec.transient, options_.timeout);
  auto tensor = planned(std::move(spec), id);
  auto deviceQueue = deviceQueueFor(*tensor);
  const std::lock_guard lock(mutex_);
  Entry& entry = tensors_[id];
  // Declared again, by a second optimizer or module: the steps go on, so that tags stay unique.
  if (!entry.active || entry.active->finished()) {
    entry.tensor = std::move(tensor);
    entry.device = std::move(deviceQueue);
    entry.spare.reset();
  } else if (entry.device != deviceQueue) {
    throw invalidArgument("tensor '" + tensor->spec.name +
                          "' is being synchronised; wait for it before it is declared on another device");
  }
  if (auto early = earlyConflicts_.extract(id)) entry.conflict = std::move(early.mapped());
  return id;
}

std::vector<TensorHandle> Engine::declare(std::vector<TensorSpec> specs) {
  std::vector<TensorHandle> handles;
  for (auto& spec : specs) {
    const std::string name = spec.name;
    handles.push_back(declareOne(std::move(spec), name));
  }
  return handles;
}

void Engine::compareLists(const std::string& listName, const std::vector<TensorSpec>& specs) {
  std::set<std::string> names;
  for (const auto& spec : specs) {
    if (!names.insert(spec.name).second) {
      throw Error(ErrorKind::kDuplicateName, "two tensors are called '" + spec.name +
                                                 "'; give every tensor of '" + listName + "' its own name");
    }
    checkSpec(spec, worldSize_);
  }
  throwIfFailed("agreeing on '" + listName + "'");
  const auto lists = control_->allgather("list." + listName, listAsText(specs), options_.timeout);
  for (size_t other = 1; other < lists.size(); ++other) {
    if (lists[other] == lists[0]) continue;
    throw Error(ErrorKind::kMismatch,
                listName + ": " + firstDifference(lists[0], lists[other], static_cast<int>(other)));
  }
}

std::vector<TensorHandle> Engine::agree(const std::string& listName, std::vector<TensorSpec> specs) {
  compareLists(listName, specs);
  return declare(std::move(specs));
}

std::vector<TensorHandle> Engine::agreeAnew(const std::string& listName,
                                            const std::vector<TensorHandle>& handles,
                                            std::vector<TensorSpec> specs) {
  if (handles.size() != specs.size()) throw invalidArgument(listName + ": one handle per tensor is needed");
  std::vector<std::shared_ptr<const Tensor>> known;
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorSpec& next = specs[i];
    known.push_back(tensor(handles[i]));
    const TensorSpec& now = known[i]->spec;
    if (now.name != next.name || now.count != next.count || now.dtype != next.dtype) {
      throw invalidArgument(listName + ": tensor '" + now.name +
                            "' can be sent in another way, but not be '" + next.name +
                            "' or have another size or element type");
    }
    if (now.device != next.device) {
      throw invalidArgument("tensor '" + now.name +
                            "' can be sent in another way, but not be on another device; declare it anew");
    }
    const std::lock_guard lock(mutex_);
    const auto entry = tensors_.find(handles[i]);
    if (entry != tensors_.end() && entry->second.active && !entry->second.active->finished()) {
      throw invalidArgument("tensor '" + now.name +
                            "' is being synchronised; wait for it before it is sent in another way");
    }
  }
  compareLists(listName, specs);
  std::vector<TensorHandle> result = handles;
  for (size_t i = 0; i < specs.size(); ++i) {
    // What is equal on all ranks now and was before, all ranks leave as it is.
    if (known[i]->spec.describe() == specs[i].describe()) continue;
    // Rank 0 knows the tensor's own name with what was agreed on first. Placement, order and states, though,
    // go by the tensor's name: what a rank remembers stays with the partitions it encodes.
    const std::string ledgerName = specs[i].name + " (" + listName + ")";
    result[i] = declareOne(std::move(specs[i]), ledgerName);
    const std::lock_guard lock(mutex_);
    tensors_.erase(handles[i]);
  }
  return result;
}

namespace {

/// A result is encoded with the aggregate's factor in it, contributions and partial sums are not.
void toUnitOfContributions(const Tensor& tensor, std::vector<float>& aggregatorState) {
  if (aggregatorState.empty()) return;
  const auto factor = static_cast<float>(1.0 / tensor.aggregateFactor);
  for (const Task& task : tensor.graph.tasks()) {
    if (task.primitive != Primitive::kEncode || task.encodeAs != EncodeAs::kResult) continue;
    const Partition& range = tensor.partitions[task.partition].range;
    for (size_t i = range.first; i < range.first + range.count; ++i) aggregatorState[i] *= factor;
  }
}

}  // namespace

std::vector<Engine::UnusedState> Engine::takeUnusedStates(TensorHandle handle) {
  const auto planned = tensor(handle);
  const bool allEncoded = std::none_of(planned->partitions.begin(), planned->partitions.end(),
                                       [](const TensorPartition& partition) { return partition.raw; });
  std::vector<UnusedState> result;
  for (const StateStore::Entry& entry : states_.entries(planned->spec.name)) {
    const bool worker = entry.role == StateRole::kWorker;
    const auto used = (worker ? planned->codec : planned->aggregateCodec)->states();
    if (allEncoded && std::find(used.begin(), used.end(), entry.state) != used.end()) continue;
    result.push_back({entry.role, entry.state, states_.take(entry.tensor, entry.role, entry.state)});
    if (!worker) toUnitOfContributions(*planned, result.back().values);
  }
  return result;
}

}  // namespace hipress
