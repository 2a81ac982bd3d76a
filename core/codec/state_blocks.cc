// SPDX-License-Identifier: Apache-2.0
#include "core/codec/state_blocks.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace hipress {
namespace {

constexpr size_t kAlignment = 64;

/// Rounded up to eighths of a power of two, so that partitions of nearly one size share their spares.
size_t sizeClass(size_t count) {
  const size_t bytes = std::max(count * sizeof(float), size_t{512});
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// In front of the floats, if they are the host's.
struct alignas(kAlignment) StateBlock::Memory {
  void* allocation = nullptr;
  float* floats = nullptr;
  size_t bytes = 0;  // of the floats
  std::atomic<size_t> owners{0};
  std::shared_ptr<StateBlocks> pool;  // while it has owners
};

StateBlock::StateBlock(const StateBlock& other) noexcept : memory_(other.memory_) {
  if (memory_ != nullptr) memory_->owners.fetch_add(1, std::memory_order_relaxed);
}

StateBlock::~StateBlock() {
  if (memory_ == nullptr || memory_->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  // Held here: the pool may have no other owner left, and frees this block then.
  const std::shared_ptr<StateBlocks> pool = std::move(memory_->pool);
  pool->giveBack(memory_);
}

float* StateBlock::get() const {
  return memory_ == nullptr ? nullptr : memory_->floats;
}

StateBlocks::~StateBlocks() {
  for (const auto& [bytes, size] : sizes_) {
    for (Block* memory : size.spares) release(memory);
  }
}

StateBlocks::Block* StateBlocks::allocate(size_t bytes, bool zeros) const {
  if (place_ != nullptr) {
    auto memory = std::make_unique<Block>();
    memory->floats = static_cast<float*>(place_->allocate(bytes));
    memory->bytes = bytes;
    return memory.release();
  }
  const size_t room = sizeof(Block) + bytes + kAlignment;
  // calloc, because large blocks then come from the kernel as zeros that take no memory until written.
  void* allocation = zeros ? std::calloc(room, 1) : std::malloc(room);
  if (allocation == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(allocation);
  const size_t offset = (kAlignment - address % kAlignment) % kAlignment;
  auto* memory = new (static_cast<std::byte*>(allocation) + offset) Block;
  memory->allocation = allocation;
  memory->floats = reinterpret_cast<float*>(memory + 1);
  memory->bytes = bytes;
  return memory;
}

void StateBlocks::release(Block* memory) const {
  if (place_ != nullptr) {
    place_->free(memory->floats);
    delete memory;
    return;
  }
  void* allocation = memory->allocation;
  memory->~Block();
  std::free(allocation);
}

void StateBlocks::read(const StateBlock& block, std::span<float> values) const {
  if (place_ != nullptr) return place_->read(block.get(), values.data(), values.size_bytes());
  std::copy_n(block.get(), values.size(), values.begin());
}

void StateBlocks::write(const StateBlock& block, std::span<const float> values) const {
  if (place_ != nullptr) return place_->write(block.get(), values.data(), values.size_bytes());
  std::copy(values.begin(), values.end(), block.get());
}

StateBlock StateBlocks::owned(Block* memory) {
  memory->owners.store(1, std::memory_order_relaxed);
  memory->pool = shared_from_this();
  return StateBlock(memory);
}

StateBlock StateBlocks::take(size_t count) {
  const size_t bytes = sizeClass(count);
  Block* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Size& size = sizes_[bytes];
    if (!size.spares.empty()) {
      // The one given back last is the most likely to be in a cache.
      memory = size.spares.back();
      size.spares.pop_back();
      size.addUsed();
    }
  }
  return memory == nullptr ? fresh(count, false) : owned(memory);
}

StateBlock StateBlocks::takeZeros(size_t count) {
  return fresh(count, true);
}

StateBlock StateBlocks::fresh(size_t count, bool zeros) {
  const size_t bytes = sizeClass(count);
  {
    const std::lock_guard lock(mutex_);
    sizes_.try_emplace(bytes);  // first, so that no block is lost if there is no room for it here
  }
  Block* memory = allocate(bytes, zeros);
  {
    const std::lock_guard lock(mutex_);
    sizes_[bytes].addUsed();
  }
  StateBlock block = owned(memory);
  // May fail: the block is not lost then.
  if (zeros && place_ != nullptr) place_->zero(memory->floats, memory->bytes);
  return block;
}

void StateBlocks::giveBack(Block* memory) {
  {
    const std::lock_guard lock(mutex_);
    Size& size = sizes_[memory->bytes];
    --size.used;
    if (size.spares.size() < size.mostUsed - size.used) return size.spares.push_back(memory);
  }
  release(memory);
}

void StateBlocks::trim() {
  std::vector<Block*> dropped;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [bytes, size] : sizes_) {
      dropped.insert(dropped.end(), size.spares.begin(), size.spares.end());
      size.spares.clear();
      size.mostUsed = size.used;
    }
  }
  for (Block* each : dropped) release(each);
}

size_t StateBlocks::bytesHeld() const {
  const std::lock_guard lock(mutex_);
  size_t held = 0;
  for (const auto& [bytes, size] : sizes_) held += bytes * (size.used + size.spares.size());
  return held;
}

}  // namespace hipress
