// SPDX-License-Identifier: Apache-2.0
//
// The lease of one partition's states; state_store.h declares it.
#include <mutex>
#include <utility>

#include "core/codec/state/state_store.h"

namespace hipress {

StateLease::StateLease(std::shared_ptr<TensorStates> owner, size_t partition)
    : owner_(std::move(owner)), partition_(partition) {
  if (owner_ == nullptr) return;
  const size_t states = owner_->vectors_.size();
  before_.reserve(states);
  after_.reserve(states);
  blocks_.reserve(2 * states);
  for (const auto& vector : owner_->vectors_) {
    const size_t count = vector->state.count(owner_->counts_.at(partition));
    BufferPool::Shared before;
    {
      const std::lock_guard lock(*owner_->mutex_);
      // The store has cut or moved the state since this list was opened. The values of this partition are
      // then in other blocks, and the new plan owns them: the lease begins with zeros.
      if (vector->counts == owner_->counts_ && vector->memory == owner_->memory_)
        before = vector->blocks[partition];
    }
    if (before == nullptr) before = owner_->memory_->takeShared(count, true);
    BufferPool::Shared after = owner_->memory_->takeShared(count);
    before_.push_back(before.get());
    after_.push_back(after.get());
    blocks_.push_back(std::move(before));
    blocks_.push_back(std::move(after));
  }
}

void StateLease::commit() {
  if (owner_ == nullptr) return;
  // The lease keeps the old blocks; the pool gets them back when the lease ends.
  const std::lock_guard lock(*owner_->mutex_);
  for (size_t state = 0; state < owner_->vectors_.size(); ++state)
    owner_->exchange(state, partition_, blocks_[2 * state + 1]);
}

void StateLease::stage() {
  if (owner_ == nullptr) return;
  const size_t states = owner_->vectors_.size();
  const std::lock_guard lock(*owner_->mutex_);
  for (size_t state = 0; state < states; ++state)
    owner_->staged_[partition_ * states + state] = std::move(blocks_[2 * state + 1]);
}

void TensorStates::settle(bool keep) {
  const size_t states = vectors_.size();
  if (keep) {
    const std::lock_guard lock(*mutex_);
    for (size_t index = 0; index < staged_.size(); ++index) {
      if (!(staged_[index] == nullptr)) exchange(index % states, index / states, staged_[index]);
    }
  }
  for (BufferPool::Shared& values : staged_) values = {};  // the old values, too, return to the pool
}

size_t TensorStates::valuesLeft(size_t state, size_t partition) const {
  const Vector& vector = *vectors_[state];
  const std::lock_guard lock(*mutex_);
  const bool current = vector.counts == counts_ && vector.memory == memory_;
  return !current || vector.blocks[partition] == nullptr ? 0 : vector.values(partition);
}

/// The caller has the mutex.
void TensorStates::exchange(size_t state, size_t partition, BufferPool::Shared& values) {
  Vector& vector = *vectors_[state];
  // Otherwise the store has cut or moved the state since this list was opened.
  if (vector.counts == counts_ && vector.memory == memory_) std::swap(vector.blocks[partition], values);
}

}  // namespace hipress
