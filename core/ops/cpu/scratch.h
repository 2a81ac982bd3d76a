// SPDX-License-Identifier: Apache-2.0
//
// Memory for the vectors of one encode or decode. Fresh memory costs a page fault for every 4 KiB, more than
// most codecs compute on them, so blocks are kept for the thread's next call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace hipress::ops {

inline constexpr size_t kScratchAlignment = 64;
/// A thread keeps at most this much that no Scratch uses; blocks that have been idle longest go first.
inline constexpr size_t kScratchBytesKept = size_t{128} << 20;

namespace detail {

/// Of all threads of the process, in use or idle; to be looked at only.
inline std::atomic<size_t> scratchBytesHeld{0};

struct ScratchBlock {
  void* memory = nullptr;
  size_t bytes = 0;
};

/// The idle blocks of a thread, the longest idle first.
class ScratchPool {
 public:
  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    for (const ScratchBlock& block : idle_) release(block);
  }

  /// A block of at least so many bytes: the smallest, and of these the last that was used, which the caches
  /// may still have. Throws std::bad_alloc.
  ScratchBlock take(size_t bytes) {
    size_t best = idle_.size();
    for (size_t i = 0; i < idle_.size(); ++i) {
      if (idle_[i].bytes >= bytes && (best == idle_.size() || idle_[i].bytes <= idle_[best].bytes)) best = i;
    }
    if (best == idle_.size()) return allocate(bytes);
    const ScratchBlock block = idle_[best];
    idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(best));
    kept_ -= block.bytes;
    return block;
  }

  void giveBack(ScratchBlock block) noexcept {
    if (block.memory == nullptr) return;
    if (block.bytes > kScratchBytesKept) return release(block);
    size_t old = 0;
    for (; kept_ + block.bytes > kScratchBytesKept; ++old) {
      kept_ -= idle_[old].bytes;
      release(idle_[old]);
    }
    idle_.erase(idle_.begin(), idle_.begin() + static_cast<ptrdiff_t>(old));
    try {
      idle_.push_back(block);
      kept_ += block.bytes;
    } catch (const std::bad_alloc&) {
      release(block);
    }
  }

  /// An empty list for a Scratch's blocks.
  std::vector<ScratchBlock> takeList() noexcept {
    std::vector<ScratchBlock> list;
    if (lists_.empty()) return list;
    list.swap(lists_.back());
    lists_.pop_back();
    return list;
  }

  void giveBackList(std::vector<ScratchBlock> list) noexcept {
    list.clear();
    try {
      lists_.push_back(std::move(list));
    } catch (const std::bad_alloc&) {
      // It is freed.
    }
  }

 private:
  static ScratchBlock allocate(size_t bytes) {
    const ScratchBlock block{::operator new(bytes, std::align_val_t(kScratchAlignment)), bytes};
    scratchBytesHeld.fetch_add(bytes, std::memory_order_relaxed);
    return block;
  }

  static void release(ScratchBlock block) noexcept {
    scratchBytesHeld.fetch_sub(block.bytes, std::memory_order_relaxed);
    ::operator delete(block.memory, std::align_val_t(kScratchAlignment));
  }

  std::vector<ScratchBlock> idle_;
  size_t kept_ = 0;
  std::vector<std::vector<ScratchBlock>> lists_;
};

inline thread_local ScratchPool scratchPool;

}  // namespace detail

/// Blocks in use until this object dies. Used by one thread at a time.
class Scratch {
 public:
  Scratch() : used_(detail::scratchPool.takeList()) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (const detail::ScratchBlock& block : used_) detail::scratchPool.giveBack(block);
    detail::scratchPool.giveBackList(std::move(used_));
  }

  /// Room for `count` elements, aligned to 64 bytes, with any content. Throws std::bad_alloc.
  template <typename T>
  __attribute__((noinline)) T* take(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kScratchAlignment);
    if (count > (std::numeric_limits<size_t>::max() - kPage) / sizeof(T)) throw std::bad_alloc();
    used_.emplace_back();  // first, so that no block is lost if there is no room for it here
    used_.back() = detail::scratchPool.take((count * sizeof(T) / kPage + 1) * kPage);
    return static_cast<T*>(used_.back().memory);
  }

  /// Ends the use of what take() gave.
  void giveBack(const void* memory) noexcept {
    for (detail::ScratchBlock& block : used_) {
      if (block.memory != memory) continue;
      detail::scratchPool.giveBack(block);
      std::swap(block, used_.back());
      used_.pop_back();
      return;
    }
  }

 private:
  static constexpr size_t kPage = 4096;
  std::vector<detail::ScratchBlock> used_;
};

/// A vector of unknown length that is written from front to back, by one thread at a time.
template <typename T>
class Appender {
 public:
  explicit Appender(Scratch& scratch) : scratch_(&scratch) {}

  /// Where the next `extra` elements may be written. Invalidates data(). Throws std::bad_alloc.
  T* reserve(size_t extra) {
    if (capacity_ - size_ < extra) grow(extra);
    return data_ + size_;
  }
  /// The first `count` elements that were written at reserve()'s place belong to the vector now.
  void added(size_t count) { size_ += count; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  __attribute__((noinline)) void grow(size_t extra) {
    const size_t wanted = 2 * capacity_ > size_ + extra ? 2 * capacity_ : size_ + extra;
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
};

}  // namespace hipress::ops
