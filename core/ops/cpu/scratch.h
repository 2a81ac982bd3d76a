// SPDX-License-Identifier: Apache-2.0
//
// Memory for the vectors of one encode or decode. Fresh memory costs a page fault for every 4 KiB, more than
// the computation of most codecs on them, so a thread keeps its blocks for the next call.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/buffer_pool.h"

namespace hipress::ops {

/// The most idle memory of a thread. Blocks that have been idle for the longest time go first.
inline constexpr size_t kScratchBytesKept = size_t{256} << 20;

namespace detail {

/// The memory of all threads of the process.
inline const std::shared_ptr<HostMemory> scratchMemory = std::make_shared<HostMemory>();

/// The pool of one thread. Threads that help it may use the pool at the same time.
inline thread_local BufferPool scratchPool{scratchMemory, {1, kScratchBytesKept}};

}  // namespace detail

/// Blocks that are in use until this object ends, from the pool of the thread that makes it. That thread must
/// end later. One thread at a time uses the object.
class Scratch {
 public:
  Scratch() : pool_(detail::scratchPool) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Room for `count` elements, aligned to 64 bytes, with undefined content. Throws std::bad_alloc.
  template <typename T>
  __attribute__((noinline)) T* take(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64);
    if (count > BufferPool::kAnyNumber / sizeof(T)) throw std::bad_alloc();
    if (used_.empty()) used_.reserve(8);
    used_.push_back(pool_.take(count * sizeof(T)));
    return reinterpret_cast<T*>(used_.back().data());
  }

  /// Returns memory of take() early.
  void giveBack(const void* memory) noexcept {
    for (BufferPool::Buffer& block : used_) {
      if (block.data() != memory) continue;
      std::swap(block, used_.back());
      return used_.pop_back();
    }
  }

 private:
  BufferPool& pool_;
  std::vector<BufferPool::Buffer> used_;
};

/// A vector of unknown length, which one thread at a time writes from front to back.
template <typename T>
class Appender {
 public:
  explicit Appender(Scratch& scratch) : scratch_(&scratch) {}

  /// Memory is never for more elements than this, unless reserve() needs it.
  void limit(size_t most) { most_ = most; }

  /// Room for the next `extra` elements. Invalidates data(). Throws std::bad_alloc.
  T* reserve(size_t extra) {
    if (capacity_ - size_ < extra) grow(extra);
    return data_ + size_;
  }
  /// Adds the first `count` elements that the caller has written to the room of reserve().
  void added(size_t count) { size_ += count; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  __attribute__((noinline)) void grow(size_t extra) {
    size_t wanted = 2 * capacity_ < most_ ? 2 * capacity_ : most_;
    if (wanted < size_ + extra) wanted = size_ + extra;
    T* larger = scratch_->take<T>(wanted);
    if (size_ != 0) std::memcpy(larger, data_, size_ * sizeof(T));
    if (data_ != nullptr) scratch_->giveBack(data_);
    data_ = larger;
    capacity_ = wanted;
  }

  Scratch* scratch_;
  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  size_t most_ = ~size_t{0};
};

}  // namespace hipress::ops
