// SPDX-License-Identifier: Apache-2.0
#include "core/casync/buffer_pool.h"

#include <bit>
#include <new>
#include <utility>

namespace hipress {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 256;

/// Sizes are rounded up to eighths of a power of two: few classes, at most 12.5 % wasted.
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

BufferPool::~BufferPool() {
  for (auto& [capacity, buffers] : free_) {
    for (auto* data : buffers) ::operator delete(data, std::align_val_t{kAlignment});
  }
}

BufferPool::Buffer BufferPool::take(size_t bytes) {
  Buffer buffer;
  buffer.capacity_ = sizeClass(bytes);
  buffer.pool_ = this;
  {
    const std::lock_guard lock(mutex_);
    auto& available = free_[buffer.capacity_];
    if (!available.empty()) {
      // Last in, first out: the one most likely to be in a cache.
      buffer.data_ = available.back();
      available.pop_back();
      return buffer;
    }
    bytesHeld_ += buffer.capacity_;
  }
  buffer.data_ = static_cast<std::byte*>(::operator new(buffer.capacity_, std::align_val_t{kAlignment}));
  return buffer;
}

void BufferPool::giveBack(std::byte* data, size_t capacity) {
  const std::lock_guard lock(mutex_);
  free_[capacity].push_back(data);
}

size_t BufferPool::bytesHeld() const {
  const std::lock_guard lock(mutex_);
  return bytesHeld_;
}

}  // namespace hipress
