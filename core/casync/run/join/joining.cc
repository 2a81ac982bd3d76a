// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/join/joining.h"

#include <algorithm>
#include <cstddef>

#include "core/casync/graph/spec_text.h"

namespace hipress {

namespace {

/// A wait looks so often whether the job has ended.
constexpr Milliseconds kLookInterval{250};

std::string refusalOf(const TensorSpec& spec, int rank) {
  return "tensor '" + spec.name + "': rank " + std::to_string(rank) +
         " has called join(), and only all-reduces go on without it; call " +
         std::string(collectiveName(spec.collective())) + " after all ranks have joined";
}

}  // namespace

int Joining::join() {
  {
    const MutexLock lock(mutex_);
    once_.clear();
  }
  const JoinRound round = control_.join();
  MutexLock lock(mutex_);
  // The others have their results. This rank may still receive its own of the operations that it has served,
  // and the caller's next operations may have the same tensors.
  while (!waiting_.empty()) {
    served_.waitUntil(lock, Clock::now() + kLookInterval);
    lock.unlock();
    table_.throwIfEnded("join()");
    lock.lock();
  }
  endedRound_ = round.number;
  std::erase_if(joined_, [&](const auto& each) { return each.second <= round.number; });
  return round.last;
}

/// The joined ranks of the tensor's set, and the lowest of its other ranks.
std::vector<int> Joining::joinedAmong(const Tensor& tensor, int& lowest) const {
  std::vector<int> ranks;
  lowest = -1;
  for (int position = 0; position < tensor.ranks(); ++position) {
    const int rank = rankAt(tensor.spec().among, static_cast<size_t>(position));
    if (joined_.contains(rank)) {
      ranks.push_back(rank);
    } else if (lowest < 0) {
      lowest = rank;
    }
  }
  return ranks;
}

void Joining::started(const OperationPointer& operation) {
  const Tensor& tensor = operation->tensor();
  std::vector<int> ranks;
  int lowest = -1;
  {
    const MutexLock lock(mutex_);
    if (joined_.empty()) return;
    ranks = joinedAmong(tensor, lowest);
  }
  if (ranks.empty()) return;
  // One rank names it, so that rank 0 does not get it from all. All ranks start it, this rank too.
  if (lowest != control_.rank()) return;
  const uint32_t number = operation->number();
  const TensorSpec& spec = tensor.spec();
  for (const int rank : ranks) {
    // Rank 0 knows whether the rank has declared a tensor for one operation before it joined.
    if (spec.transient && spec.allreduce() == nullptr) {
      control_.excuse(rank, number, refusalOf(spec, rank));
    } else {
      control_.demand(rank, number, operation->values().step,
                      spec.transient ? textOfSpec(spec) : std::string());
    }
  }
}

void Joining::hear(const ControlNotice& notice) {
  if (notice.kind == ControlNotice::Kind::kJoined) return joined(notice.rank, notice.tensor);
  demanded({notice.tensor, notice.step, notice.message});
}

void Joining::joined(int rank, uint32_t round) {
  {
    const MutexLock lock(mutex_);
    if (round <= endedRound_) return;
    joined_[rank] = round;
  }
  for (const OperationPointer& operation : table_.ofCallers()) {
    if (operation->number() != 0) started(operation);  // else it has not started
  }
}

void Joining::demanded(const Demand& demand) {
  try {
    const std::string name = nameOf(demand);
    {
      const MutexLock lock(mutex_);
      // When the rank that names operations has joined, too, another one names the same operations again.
      if (!demand.text.empty() && !once_.insert(demand.tensor).second) return;
      const auto [waiting, isFree] = waiting_.try_emplace(name);
      if (!isFree) return waiting->second.push_back(demand);
    }
    serve(name, demand);
  } catch (const Error& error) {
    calls_.fail(error);
  }
}

std::string Joining::nameOf(const Demand& demand) const {
  if (!demand.text.empty()) return specOfText(demand.text).name;
  const auto tensor = table_.numbered(demand.tensor).first;
  if (tensor != nullptr) return tensor->spec().name;
  throw Error(ErrorKind::kMismatch,
              "rank " + std::to_string(control_.rank()) + " has joined, and does not know tensor number " +
                  std::to_string(demand.tensor) + " any more: keep the optimizer until join() has returned");
}

void Joining::serve(const std::string& name, const Demand& demand) {
  if (!demand.text.empty()) return submit(calls_.announce(specOfText(demand.text)), name);
  const auto [tensor, next] = table_.numbered(demand.tensor);
  if (tensor == nullptr || demand.step < next) return ended(name);  // it has taken part already
  submit(tensor->id(), name);
}

/// Takes part without values.
void Joining::submit(TensorHandle handle, const std::string& name) {
  const auto tensor = table_.tensor(handle);
  if (tensor->spec().allreduce() == nullptr) throw unsupported(refusalOf(tensor->spec(), control_.rank()));
  if (tensor->spec().device != nullptr)
    throw unsupported(
        "tensor '" + name +
        "' is on a device, and a joined rank takes part on the host only: give all ranks equally many "
        "batches");
  const auto output = std::make_shared<std::vector<std::byte>>(tensor->outputBytes());
  Submission submission;
  submission.output = output->data();
  submission.keepAlive = output;
  submission.inner = true;
  submission.onDone = [this, name](const Failure&, bool) {
    try {
      ended(name);
    } catch (const Error& error) {
      calls_.fail(error);
    }
  };
  calls_.submit(handle, std::move(submission));
}

/// The tensor's operation has ended: the next demand of it may begin.
void Joining::ended(const std::string& name) {
  Demand next;
  {
    const MutexLock lock(mutex_);
    const auto waiting = waiting_.find(name);
    if (waiting->second.empty()) {
      waiting_.erase(waiting);
      served_.notify_all();
      return;
    }
    next = std::move(waiting->second.front());
    waiting->second.pop_front();
  }
  serve(name, next);
}

}  // namespace hipress
