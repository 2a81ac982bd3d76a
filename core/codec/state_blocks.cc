// SPDX-License-Identifier: Apache-2.0
#include "core/codec/state_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
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

StateBlocks::~StateBlocks() {
  for (const Memory& memory : spares_) std::free(memory.allocation);
}

StateBlocks::Memory StateBlocks::allocate(size_t bytes) {
  // calloc, because large blocks then come from the kernel as zeros that take no memory until written.
  void* allocation = std::calloc(bytes + kAlignment, 1);
  if (allocation == nullptr) throw std::bad_alloc();
  const auto address = reinterpret_cast<uintptr_t>(allocation);
  const size_t offset = (kAlignment - address % kAlignment) % kAlignment;
  return {allocation, reinterpret_cast<float*>(static_cast<std::byte*>(allocation) + offset), bytes};
}

StateBlock StateBlocks::owned(const Memory& memory) {
  return {memory.floats, [pool = shared_from_this(), memory](float*) { pool->giveBack(memory); }};
}

StateBlock StateBlocks::take(size_t count) {
  const size_t bytes = sizeClass(count);
  Memory memory;
  {
    const std::lock_guard lock(mutex_);
    // The one given back last is the most likely to be in a cache.
    const auto found = std::find_if(spares_.rbegin(), spares_.rend(),
                                    [bytes](const Memory& spare) { return spare.bytes == bytes; });
    if (found != spares_.rend()) {
      memory = *found;
      spares_.erase(std::next(found).base());
      spareBytes_ -= bytes;
      usedBytes_ += bytes;
      mostUsedBytes_ = std::max(mostUsedBytes_, usedBytes_);
    }
  }
  return memory.allocation == nullptr ? takeZeros(count) : owned(memory);
}

StateBlock StateBlocks::takeZeros(size_t count) {
  const Memory memory = allocate(sizeClass(count));
  {
    const std::lock_guard lock(mutex_);
    usedBytes_ += memory.bytes;
    mostUsedBytes_ = std::max(mostUsedBytes_, usedBytes_);
  }
  return owned(memory);
}

void StateBlocks::giveBack(const Memory& memory) {
  std::list<Memory> dropped;
  {
    const std::lock_guard lock(mutex_);
    spares_.push_back(memory);
    spareBytes_ += memory.bytes;
    usedBytes_ -= memory.bytes;
    // Spares of what was once used at the same time; or, for models with partitions of many sizes, a small
    // part of the whole.
    const size_t limit = std::max(mostUsedBytes_ - usedBytes_, usedBytes_ / 8);
    auto end = spares_.begin();
    while (spareBytes_ > limit) spareBytes_ -= (end++)->bytes;
    dropped.splice(dropped.begin(), spares_, spares_.begin(), end);
  }
  for (const Memory& each : dropped) std::free(each.allocation);
}

void StateBlocks::trim() {
  std::list<Memory> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(spares_);
    spareBytes_ = 0;
    mostUsedBytes_ = usedBytes_;
  }
  for (const Memory& each : dropped) std::free(each.allocation);
}

size_t StateBlocks::bytesHeld() const {
  const std::lock_guard lock(mutex_);
  return usedBytes_ + spareBytes_;
}

}  // namespace hipress
