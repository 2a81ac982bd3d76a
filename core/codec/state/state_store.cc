// SPDX-License-Identifier: Apache-2.0
#include "core/codec/state/state_store.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "core/base/error.h"

namespace hipress {

namespace {

void checkBlocks(const std::string& tensor, const CodecState& state, const std::vector<size_t>& partitions) {
  size_t first = 0;
  for (const size_t count : partitions) {
    if (count > 0 && first % state.block != 0) {
      throw invalidArgument("state '" + state.name + "' of tensor '" + tensor + "' has one value for each " +
                            std::to_string(state.block) + " elements, and a partition begins at element " +
                            std::to_string(first) + ", inside such a block; use partitions that begin at " +
                            "multiples of " + std::to_string(kStateBlock));
    }
    first += count;
  }
}

}  // namespace

size_t TensorStates::Vector::elements() const {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

StateStore::StateStore() : memory_(makeStatePool(hostMemory)), mutex_(std::make_shared<std::mutex>()) {}

std::shared_ptr<TensorStates> StateStore::open(const std::string& tensor, StateRole role,
                                               std::span<const CodecState> states,
                                               std::vector<size_t> partitions,
                                               std::shared_ptr<BufferPool> place) {
  auto result = std::make_shared<TensorStates>();
  result->memory_ = place == nullptr ? memory_ : std::move(place);
  result->mutex_ = mutex_;
  result->counts_ = std::move(partitions);
  const size_t count = std::accumulate(result->counts_.begin(), result->counts_.end(), size_t{0});
  for (const CodecState& state : states) checkBlocks(tensor, state, result->counts_);
  const std::lock_guard lock(*mutex_);
  for (const CodecState& state : states) {
    auto& vector = vectors_[Key{tensor, role, state.name}];
    if (vector == nullptr) {
      ++generation_;
      vector = std::make_shared<TensorStates::Vector>();
      vector->state = state;
      vector->memory = result->memory_;
      vector->counts = result->counts_;
      vector->blocks.resize(result->counts_.size());
    }
    const std::string what = "state '" + state.name + "' of tensor '" + tensor + "' has ";
    if (vector->elements() != count) {
      throw Error(ErrorKind::kMismatch,
                  what + std::to_string(vector->elements()) + " elements, but the tensor now has " +
                      std::to_string(count) +
                      "; a tensor whose shape changes needs another name, or erase its states first");
    }
    if (vector->state.block != state.block) {
      throw Error(ErrorKind::kMismatch, what + "one value for each " + std::to_string(vector->state.block) +
                                            " elements, but the codec now keeps one for each " +
                                            std::to_string(state.block) +
                                            "; give the state another name, or erase the old one first");
    }
    if (vector->counts != result->counts_) {
      if (!vector->memory->onHost()) move(*vector, memory_);  // the host can put pieces together
      cut(*vector, result->counts_);
    }
    if (vector->memory != result->memory_) {
      move(*vector, result->memory_);
      ++generation_;
    }
    result->vectors_.push_back(vector);
  }
  result->staged_.resize(states.size() * result->counts_.size());
  return result;
}

void StateStore::cut(TensorStates::Vector& vector, const std::vector<size_t>& counts) {
  TensorStates::Blocks blocks(counts.size());
  // Walks through the boundaries of old and new partitions: each piece is in one old and one new partition.
  size_t from = 0, fromOffset = 0, to = 0, toOffset = 0;
  while (from < vector.counts.size() && to < counts.size()) {
    const size_t piece = std::min(vector.counts[from] - fromOffset, counts[to] - toOffset);
    if (piece > 0 && vector.blocks[from] != nullptr) {
      const CodecState& state = vector.state;  // a piece begins at a block of the state
      if (blocks[to] == nullptr) blocks[to] = memory_->takeShared(state.count(counts[to]), true);
      std::copy_n(vector.blocks[from].get() + fromOffset / state.block, state.count(piece),
                  blocks[to].get() + toOffset / state.block);
    }
    fromOffset += piece;
    toOffset += piece;
    if (fromOffset == vector.counts[from]) ++from, fromOffset = 0;
    if (toOffset == counts[to]) ++to, toOffset = 0;
  }
  vector.counts = counts;
  vector.blocks = std::move(blocks);
  ++generation_;
  memory_->trim();
}

/// Blocks of zeros take no memory at the new place, either.
void StateStore::move(TensorStates::Vector& vector, const std::shared_ptr<BufferPool>& place) {
  for (size_t partition = 0; partition < vector.counts.size(); ++partition) {
    BufferPool::Shared& block = vector.blocks[partition];
    if (block == nullptr) continue;
    std::vector<float> values(vector.values(partition));
    vector.memory->memory().read(block.get(), values.data(), values.size() * sizeof(float));
    block = place->takeShared(values.size());
    place->memory().write(block.get(), values.data(), values.size() * sizeof(float));
  }
  std::exchange(vector.memory, place)->trim();
}

std::vector<float> StateStore::joined(const TensorStates::Vector& vector) {
  std::vector<float> values(vector.values());
  std::span<float> rest(values);
  for (size_t partition = 0; partition < vector.counts.size(); ++partition) {
    const size_t count = vector.values(partition);
    if (vector.blocks[partition] != nullptr) {
      vector.memory->memory().read(vector.blocks[partition].get(), rest.data(), count * sizeof(float));
    }
    rest = rest.subspan(count);
  }
  return values;
}

std::vector<float> StateStore::copy(const std::string& tensor, StateRole role,
                                    const std::string& state) const {
  TensorStates::Vector found;
  {
    const std::lock_guard lock(*mutex_);
    const auto position = vectors_.find(Key{tensor, role, state});
    if (position == vectors_.end()) return {};
    found = *position->second;  // shares the blocks: no thread writes to a block that a lease may read
  }
  return joined(found);
}

void StateStore::read(const std::string& tensor, StateRole role, const std::string& state, size_t first,
                      std::span<float> values) const {
  TensorStates::Vector found;
  {
    const std::lock_guard lock(*mutex_);
    const auto position = vectors_.find(Key{tensor, role, state});
    if (position != vectors_.end()) found = *position->second;
  }
  for (size_t partition = 0; partition < found.counts.size() && !values.empty(); ++partition) {
    const size_t count = found.values(partition);
    if (first >= count) {
      first -= count;
      continue;
    }
    const auto part = values.first(std::min(count - first, values.size()));
    if (found.blocks[partition] != nullptr) {
      found.memory->memory().read(found.blocks[partition].get() + first, part.data(), part.size_bytes());
    } else {
      std::ranges::fill(part, 0.0f);
    }
    values = values.subspan(part.size());
    first = 0;
  }
  std::ranges::fill(values, 0.0f);
}

std::vector<float> StateStore::take(const std::string& tensor, StateRole role, const std::string& state) {
  std::vector<float> values;
  {
    TensorStates::Vector found;
    {
      const std::lock_guard lock(*mutex_);
      const auto node = vectors_.extract(Key{tensor, role, state});
      if (node.empty()) return {};
      ++generation_;
      found = *node.mapped();
    }
    values = joined(found);
  }
  memory_->trim();
  return values;
}

void StateStore::put(const std::string& tensor, StateRole role, const CodecState& state,
                     std::vector<size_t> partitions, std::span<const float> values) {
  checkBlocks(tensor, state, partitions);
  auto vector = std::make_shared<TensorStates::Vector>();
  vector->state = state;
  vector->memory = memory_;
  vector->counts = std::move(partitions);
  for (size_t partition = 0; partition < vector->counts.size(); ++partition) {
    const size_t count = vector->values(partition);
    const auto part = values.first(count);
    values = values.subspan(count);
    BufferPool::Shared& block = vector->blocks.emplace_back();
    if (std::ranges::all_of(part, [](float value) { return std::bit_cast<uint32_t>(value) == 0; })) continue;
    block = memory_->takeShared(count);
    std::ranges::copy(part, block.get());
  }
  const std::lock_guard lock(*mutex_);
  ++generation_;
  vectors_[Key{tensor, role, state.name}] = std::move(vector);
}

std::vector<StateStore::Entry> StateStore::entries() const {
  const std::lock_guard lock(*mutex_);
  std::vector<Entry> result;
  result.reserve(vectors_.size());
  for (const auto& [key, vector] : vectors_) {
    result.push_back({std::get<0>(key), std::get<1>(key), vector->state, vector->values()});
  }
  return result;
}

std::vector<StateStore::Entry> StateStore::entries(const std::string& tensor) const {
  const std::lock_guard lock(*mutex_);
  std::vector<Entry> result;
  auto item = vectors_.lower_bound(Key{tensor, StateRole::kWorker, ""});
  for (; item != vectors_.end() && std::get<0>(item->first) == tensor; ++item) {
    result.push_back({tensor, std::get<1>(item->first), item->second->state, item->second->values()});
  }
  return result;
}

void StateStore::erase(const std::string& tensor) {
  {
    const std::lock_guard lock(*mutex_);
    ++generation_;
    std::erase_if(vectors_, [&](const auto& item) { return std::get<0>(item.first) == tensor; });
  }
  memory_->trim();
}

void StateStore::clear() {
  {
    const std::lock_guard lock(*mutex_);
    ++generation_;
    vectors_.clear();
  }
  memory_->trim();
}

size_t StateStore::bytes() const {
  const std::lock_guard lock(*mutex_);
  size_t total = 0;
  for (const auto& [key, vector] : vectors_) total += vector->values() * sizeof(float);
  return total;
}

size_t StateStore::bytesHeld() const {
  return memory_->statistics().held;
}

}  // namespace hipress
