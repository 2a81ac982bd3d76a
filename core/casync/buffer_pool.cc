// SPDX-License-Identifier: Apache-2.0
#include "core/casync/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace hipress {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 256;

/// A peak is forgotten after one to two periods of so many returned buffers: some steps of any model, since
/// each of its tensors returns a few.
constexpr uint64_t kPeriod = 4096;

/// Sizes are rounded up to eighths of a power of two: few classes, at most 12.5 % wasted, and tensors of
/// nearly the same size use each other's buffers.
size_t sizeClass(size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::bit_floor(bytes) / 8;
  return (bytes + step - 1) / step * step;
}

}  // namespace

BufferPool::Buffer& BufferPool::Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    pool_ = std::exchange(other.pool_, nullptr);
  }
  return *this;
}

void BufferPool::Buffer::release() {
  if (data_ != nullptr) pool_->giveBack(std::exchange(data_, nullptr), capacity_);
}

BufferPool::BufferPool(std::shared_ptr<Memory> memory) : memory_(std::move(memory)) {}

BufferPool::~BufferPool() {
  for (auto& [capacity, buffers] : idle_) {
    for (const Idle& buffer : buffers) free(buffer.data);
  }
}

/// nullptr: there is no more.
std::byte* BufferPool::allocate(size_t capacity) const {
  if (memory_ == nullptr)
    return static_cast<std::byte*>(::operator new(capacity, std::align_val_t{kAlignment}, std::nothrow));
  try {
    return static_cast<std::byte*>(memory_->allocate(capacity));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void BufferPool::free(std::byte* data) const {
  if (memory_ == nullptr) {
    ::operator delete(data, std::align_val_t{kAlignment});
  } else {
    memory_->free(data);
  }
}

BufferPool::Buffer BufferPool::take(size_t bytes) {
  Buffer buffer;
  buffer.capacity_ = sizeClass(bytes);
  buffer.pool_ = this;
  Freed freed;
  {
    const std::lock_guard lock(mutex_);
    buffer.data_ = reuse(&buffer.capacity_, buffer.capacity_ + buffer.capacity_ / 4);
    // What is in use one after the other shares the larger one's memory, rather than displace each other.
    const bool full = statistics_.held + buffer.capacity_ > limit();
    if (buffer.data_ == nullptr && full) buffer.data_ = reuse(&buffer.capacity_, 4 * buffer.capacity_);
    const bool isNew = buffer.data_ == nullptr;
    if (isNew) statistics_.held += buffer.capacity_;
    countInUse(buffer.capacity_);
    if (isNew) shrinkTo(limit(), freed);
  }
  for (auto* data : freed) free(data);
  if (buffer.data_ == nullptr) buffer.data_ = allocate(buffer.capacity_);
  if (buffer.data_ == nullptr) {
    const std::lock_guard lock(mutex_);
    statistics_.held -= buffer.capacity_;
    statistics_.inUse -= buffer.capacity_;
    throw std::bad_alloc();
  }
  return buffer;
}

/// An idle buffer of at least `*capacity`, which becomes its own, and at most `largest`; nullptr: none.
std::byte* BufferPool::reuse(size_t* capacity, size_t largest) {
  for (auto found = idle_.lower_bound(*capacity); found != idle_.end() && found->first <= largest; ++found) {
    if (found->second.empty()) continue;
    *capacity = found->first;
    // Last in, first out: the one most likely to be in a cache.
    auto* data = found->second.back().data;
    found->second.pop_back();
    return data;
  }
  return nullptr;
}

void BufferPool::countInUse(size_t capacity) {
  statistics_.inUse += capacity;
  statistics_.peakInUse = std::max(statistics_.peakInUse, statistics_.inUse);
  peakNow_ = std::max(peakNow_, statistics_.inUse);
}

/// Of bytes held. The quarter is for small buffers, so that they need not displace large ones.
size_t BufferPool::limit() const {
  const size_t peak = std::max(peakNow_, peakBefore_);
  return peak + peak / 4;
}

void BufferPool::giveBack(std::byte* data, size_t capacity) {
  Freed freed;
  {
    const std::lock_guard lock(mutex_);
    idle_[capacity].push_back({data, ++returns_});
    statistics_.inUse -= capacity;
    if (returns_ % kPeriod == 0) {
      peakBefore_ = std::exchange(peakNow_, statistics_.inUse);
      shrinkTo(limit(), freed);
    }
  }
  for (auto* each : freed) free(each);
}

/// Lets go of the buffers that have been idle for longest until no more than `bytes` are held.
void BufferPool::shrinkTo(size_t bytes, Freed& freed) {
  while (statistics_.held > bytes) {
    auto oldest = idle_.end();
    for (auto each = idle_.begin(); each != idle_.end(); ++each) {
      if (each->second.empty()) continue;
      if (oldest == idle_.end() || each->second.front().since < oldest->second.front().since) oldest = each;
    }
    if (oldest == idle_.end()) return;
    statistics_.held -= oldest->first;
    freed.push_back(oldest->second.front().data);
    oldest->second.pop_front();
  }
}

BufferPool::Statistics BufferPool::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace hipress
