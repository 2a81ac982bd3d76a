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
  for (size_t state = 0; state < owner_->vectors_.size(); ++state) {
    TensorStates::Vector& vector = *owner_->vectors_[state];
    if (vector.counts == owner_->counts_ && vector.memory == owner_->memory_)
      vector.blocks[partition_] = blocks_[2 * state + 1];
  }
}

}  // namespace hipress
