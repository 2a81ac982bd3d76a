// SPDX-License-Identifier: Apache-2.0
#include "core/control/ledger/tensor_table.h"

#include <algorithm>
#include <utility>

namespace hipress::control {

namespace {

std::string shown(const std::string& specification, bool transient, bool kindsDiffer) {
  if (!kindsDiffer) return specification;
  return specification + (transient ? " (for one use)" : " (kept)");
}

}  // namespace

void TensorTable::declare(int rank, uint64_t call, const DeclareRequest& request, Outbox& outbox) {
  Reply reply{call, nullptr, {}, {}};
  for (const Declaration& declaration : request.tensors) {
    uint32_t number = 0;
    reply.failure = declare(rank, declaration, request.among, number, outbox);
    if (reply.failure) break;
    reply.numbers.push_back(number);
  }
  outbox.emplace_back(rank, std::move(reply));
}

/// Returns the conflict, if there is one.
Failure TensorTable::declare(int rank, const Declaration& declaration, const ProcessSet& among,
                             uint32_t& number, Outbox& outbox) {
  const auto index = static_cast<size_t>(rank);
  Tensors& tensors = tensors_[declaration.name];
  Tensor& tensor = entryFor(rank, tensors, declaration, among);
  number = tensor.id;
  Failure conflict;
  const bool kindsDiffer = tensor.transient != declaration.transient;
  if (kindsDiffer || tensor.specification != declaration.specification) {
    const std::string whose =
        tensor.first == rank ? "it had before" : "rank " + std::to_string(tensor.first) + " has";
    const std::string message = "tensor '" + declaration.name + "': rank " + std::to_string(rank) + " has " +
                                shown(declaration.specification, declaration.transient, kindsDiffer) + ", " +
                                whose + " " + shown(tensor.specification, tensor.transient, kindsDiffer) +
                                ". Make all ranks use the same shape, dtype and options for it, or different "
                                "names for different tensors.";
    tensor.dissenters[rank] = message;
    conflict = failureOf(ErrorKind::kMismatch, message);
    tell(tensor, {ControlNotice::Kind::kConflict, rank, tensor.id, ErrorKind::kMismatch, message}, outbox);
  } else {
    tensor.dissenters.erase(rank);
    if (!tensor.dissenters.empty())
      conflict = failureOf(ErrorKind::kMismatch, tensor.dissenters.begin()->second);
  }
  if (tensor.refusal) conflict = tensor.refusal;
  tensor.declared[index] = true;
  drop(tensors);
  if (tensors.empty()) tensors_.erase(declaration.name);
  return conflict;
}

TensorTable::Tensor* TensorTable::awaiting(int rank, uint32_t tensor) {
  for (auto& [name, tensors] : tensors_) {
    const auto found = std::ranges::find(tensors, tensor, &Tensor::id);
    if (found == tensors.end()) continue;
    return found->transient && !found->declared[static_cast<size_t>(rank)] ? &*found : nullptr;
  }
  return nullptr;
}

bool TensorTable::awaits(int rank, uint32_t tensor) {
  return awaiting(rank, tensor) != nullptr;
}

void TensorTable::excuse(int rank, uint32_t tensor, const std::string& reason, Outbox& outbox) {
  Tensor* refused = awaiting(rank, tensor);
  if (refused == nullptr) return;
  refused->refusal = failureOf(ErrorKind::kUnsupported, reason);
  tell(*refused, {ControlNotice::Kind::kConflict, rank, tensor, ErrorKind::kUnsupported, reason}, outbox);
  refused->declared[static_cast<size_t>(rank)] = true;
  rosterChanged();
}

/// Tells the ranks that have declared the tensor, but not the one that the notice is about.
void TensorTable::tell(const Tensor& tensor, const ControlNotice& notice, Outbox& outbox) const {
  for (size_t other = 0; other < roster_.size(); ++other) {
    if (static_cast<int>(other) == notice.rank || !tensor.declared[other] ||
        roster_[other].presence != Member::Presence::kHere)
      continue;
    outbox.emplace_back(static_cast<int>(other), notice);
  }
}

void TensorTable::rosterChanged() {
  for (auto entry = tensors_.begin(); entry != tensors_.end();) {
    drop(entry->second);
    entry = entry->second.empty() ? tensors_.erase(entry) : std::next(entry);
  }
}

TensorTable::Tensor& TensorTable::entryFor(int rank, Tensors& tensors, const Declaration& declaration,
                                           const ProcessSet& among) {
  for (Tensor& tensor : tensors) {
    if (!tensor.transient || !tensor.declared[static_cast<size_t>(rank)]) return tensor;
  }
  Tensor& tensor = tensors.emplace_back();
  tensor.id = newId();
  tensor.first = rank;
  tensor.specification = declaration.specification;
  tensor.transient = declaration.transient;
  tensor.among = among;
  tensor.declared.resize(roster_.size());
  return tensor;
}

bool TensorTable::finished(const Tensor& tensor) const {
  if (!tensor.transient) return false;
  const auto ranks = static_cast<size_t>(sizeOf(tensor.among, static_cast<int>(roster_.size())));
  for (size_t position = 0; position < ranks; ++position) {
    const auto rank = static_cast<size_t>(rankAt(tensor.among, position));
    if (!tensor.declared[rank] && !roster_[rank].gone()) return false;
  }
  return true;
}

void TensorTable::drop(Tensors& tensors) {
  std::erase_if(tensors, [this](const Tensor& tensor) {
    if (!finished(tensor)) return false;
    used_.erase(tensor.id);
    return true;
  });
}

/// Counts up and starts again only after 2^31, because late messages of a finished tensor must not match a
/// new tensor.
uint32_t TensorTable::newId() {
  do {
    lastId_ = (lastId_ + 1) % kTensorNumbers;
  } while (lastId_ == 0 || used_.contains(lastId_));
  used_.insert(lastId_);
  return lastId_;
}

}  // namespace hipress::control
