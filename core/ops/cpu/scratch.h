// SPDX-License-Identifier: Apache-2.0
//
// Memory for the vectors of one encode or decode. Fresh memory costs a page fault for every 4 KiB, more than
// most codecs compute on them, so blocks are kept for the thread's next call.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
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

/// A block's bytes, and what is in the pool's map with them.
struct ScratchMemory {
  void* memory = nullptr;
  uint64_t idleSince = 0;
};
using ScratchBlocks = std::multimap<size_t, ScratchMemory>;
/// Taken out of a map whole, so that keeping blocks allocates nothing.
using ScratchBlock = ScratchBlocks::node_type;

/// The idle blocks of a thread. Those that help it may use it at the same time.
class ScratchPool {
 public:
  ScratchPool() = default;
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;
  ~ScratchPool() {
    for (const auto& [bytes, block] : idle_) release(bytes, block);
  }

  /// A block of at least so many bytes: the smallest, and of these the last that was used, which the caches
  /// may still have. Throws std::bad_alloc.
  ScratchBlock take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto fitting = idle_.lower_bound(bytes);
    if (fitting == idle_.end()) return allocate(bytes);
    kept_ -= fitting->first;
    return idle_.extract(std::prev(idle_.upper_bound(fitting->first)));
  }

  void giveBack(ScratchBlock block) noexcept {
    if (block.empty()) return;
    const std::lock_guard lock(mutex_);
    if (block.key() > kScratchBytesKept) return release(block.key(), block.mapped());
    while (kept_ + block.key() > kScratchBytesKept) dropLongestIdle();
    kept_ += block.key();
    block.mapped().idleSince = ++time_;
    idle_.insert(std::move(block));
  }

  /// An empty list for a Scratch's blocks.
  std::vector<ScratchBlock> takeList() noexcept {
    const std::lock_guard lock(mutex_);
    std::vector<ScratchBlock> list;
    if (lists_.empty()) return list;
    list.swap(lists_.back());
    lists_.pop_back();
    return list;
  }

  void giveBackList(std::vector<ScratchBlock> list) noexcept {
    const std::lock_guard lock(mutex_);
    list.clear();
    try {
      lists_.push_back(std::move(list));
    } catch (const std::bad_alloc&) {
      // It is freed.
    }
  }

 private:
  static ScratchBlock allocate(size_t bytes) {
    ScratchBlocks one;
    const auto place = one.emplace(bytes, ScratchMemory{});
    place->second.memory = ::operator new(bytes, std::align_val_t(kScratchAlignment));
    scratchBytesHeld.fetch_add(bytes, std::memory_order_relaxed);
    return one.extract(place);
  }

  static void release(size_t bytes, const ScratchMemory& block) noexcept {
    scratchBytesHeld.fetch_sub(bytes, std::memory_order_relaxed);
    ::operator delete(block.memory, std::align_val_t(kScratchAlignment));
  }

  void dropLongestIdle() noexcept {
    const auto oldest = std::min_element(idle_.begin(), idle_.end(), [](const auto& one, const auto& other) {
      return one.second.idleSince < other.second.idleSince;
    });
    kept_ -= oldest->first;
    release(oldest->first, oldest->second);
    idle_.erase(oldest);
  }

  std::mutex mutex_;
  ScratchBlocks idle_;
  size_t kept_ = 0;
  uint64_t time_ = 0;
  std::vector<std::vector<ScratchBlock>> lists_;
};

inline thread_local ScratchPool scratchPool;

}  // namespace detail

/// Blocks in use until this object dies, from the pool of the thread that makes it, which ends later than it
/// does. Used by one thread at a time.
class Scratch {
 public:
  Scratch() : pool_(detail::scratchPool), used_(pool_.takeList()) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    for (detail::ScratchBlock& block : used_) pool_.giveBack(std::move(block));
    pool_.giveBackList(std::move(used_));
  }

  /// Room for `count` elements, aligned to 64 bytes, with any content. Throws std::bad_alloc.
  template <typename T>
  __attribute__((noinline)) T* take(size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kScratchAlignment);
    if (count > (std::numeric_limits<size_t>::max() - kPage) / sizeof(T)) throw std::bad_alloc();
    used_.emplace_back();  // first, so that no block is lost if there is no room for it here
    used_.back() = pool_.take((count * sizeof(T) / kPage + 1) * kPage);
    return static_cast<T*>(used_.back().mapped().memory);
  }

  /// Ends the use of what take() gave.
  void giveBack(const void* memory) noexcept {
    for (detail::ScratchBlock& block : used_) {
      if (block.empty() || block.mapped().memory != memory) continue;
      pool_.giveBack(std::move(block));
      if (&block != &used_.back()) block = std::move(used_.back());
      used_.pop_back();
      return;
    }
  }

 private:
  static constexpr size_t kPage = 4096;
  detail::ScratchPool& pool_;
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
