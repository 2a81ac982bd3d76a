// SPDX-License-Identifier: Apache-2.0
//
// Memory that steps use again, because fresh pages cost more than the copies into them. A pool serves
// staging, sums, codec states or codecs' scratch memory, on the host or on a device. It keeps little more
// than the recent peak use, so that one synchronisation of a large tensor does not keep its memory for
// ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "core/base/memory.h"

namespace hipress {

class BufferPool : public std::enable_shared_from_this<BufferPool> {
  /// A block of memory, in use or idle. A block keeps its description, so that its return allocates nothing.
  struct Block {
    std::byte* data = nullptr;
    size_t capacity = 0;
    uint64_t idleSince = 0;
    Block* next = nullptr;               // the next idle block of this capacity
    std::atomic<size_t> owners{0};       // the owners of a Shared
    std::shared_ptr<BufferPool> keeper;  // the pool, while there are owners
  };

 public:
  static constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

  /// Memory of at least the requested size, aligned to 64 bytes. Its destructor returns it to the pool.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      if (this == &other) return *this;
      release();
      block_ = std::exchange(other.block_, nullptr);
      data_ = std::exchange(other.data_, nullptr);
      pool_ = other.pool_;
      return *this;
    }
    ~Buffer() { release(); }

    std::byte* data() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }
    std::span<std::byte> first(size_t bytes) const { return {data_, bytes}; }
    std::span<float> floats(size_t count) const { return {reinterpret_cast<float*>(data_), count}; }
    void release() {
      if (std::exchange(data_, nullptr) != nullptr) pool_->giveBack(std::exchange(block_, nullptr));
    }

   private:
    friend class BufferPool;
    Buffer(Block* block, BufferPool* pool) : block_(block), data_(block->data), pool_(pool) {}
    Block* block_ = nullptr;
    std::byte* data_ = nullptr;
    BufferPool* pool_ = nullptr;
  };

  /// Floats with several owners. The last owner returns them to the pool, which they keep alive. A
  /// std::shared_ptr would allocate for each buffer.
  class Shared {
   public:
    Shared() = default;
    Shared(const Shared& other) noexcept : block_(other.block_) {
      if (block_ != nullptr) block_->owners.fetch_add(1, std::memory_order_relaxed);
    }
    Shared(Shared&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
    Shared& operator=(Shared other) noexcept {
      std::swap(block_, other.block_);
      return *this;
    }
    ~Shared() {
      if (block_ == nullptr || block_->owners.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      // This pointer keeps the pool, which may have no other owner left.
      const std::shared_ptr<BufferPool> pool = std::move(block_->keeper);
      pool->giveBack(block_);
    }

    float* get() const { return block_ == nullptr ? nullptr : reinterpret_cast<float*>(block_->data); }
    bool operator==(std::nullptr_t) const { return block_ == nullptr; }

   private:
    friend class BufferPool;
    explicit Shared(Block* block) : block_(block) {}
    Block* block_ = nullptr;
  };

  /// The idle memory that a pool may keep.
  struct Spare {
    size_t quarters = 1;       ///< Quarters of the recent peak use.
    size_t most = kAnyNumber;  ///< Bytes.
  };
  explicit BufferPool(std::shared_ptr<Memory> memory = hostMemory)
      : BufferPool(std::move(memory), Spare{1, kAnyNumber}) {}
  BufferPool(std::shared_ptr<Memory> memory, Spare spare) : memory_(std::move(memory)), spare_(spare) {}
  ~BufferPool() { free(takeIdle(0)); }
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Thread-safe. Throws std::bad_alloc. The pool must outlive the buffer.
  Buffer take(size_t bytes) { return {takeBlock(bytes, false, false), this}; }

  /// Room for `count` floats with any values, or with zeros fresh from the system. The block has little spare
  /// room, because it may stay in use for long. A std::shared_ptr must own the pool.
  Shared takeShared(size_t count, bool zeros = false) {
    Block* const block = takeBlock(count * sizeof(float), true, zeros);
    block->owners.store(1, std::memory_order_relaxed);
    block->keeper = shared_from_this();
    return Shared(block);
  }

  Memory& memory() const { return *memory_; }
  bool onHost() const { return memory_ == hostMemory; }

  /// Frees all idle memory and resets the peak use: for a moment after which many buffers have returned.
  void trim() {
    Block* dropped = nullptr;
    {
      const std::lock_guard lock(mutex_);
      peakNow_ = peakBefore_ = statistics_.inUse;
      dropped = takeIdle(statistics_.inUse);
    }
    free(dropped);
  }

  struct Statistics {
    size_t held = 0;  ///< Bytes allocated, in use or idle.
    size_t inUse = 0;
    size_t peakInUse = 0;  ///< The peak use since the start.
  };
  Statistics statistics() const {
    const std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  static constexpr size_t kSmallest = 256;
  /// A peak counts for one to two periods of this number of returned buffers. A period is some steps of any
  /// model, because each tensor of a step returns a few buffers.
  static constexpr uint64_t kPeriod = 4096;

  /// Rounds sizes up to eighths of a power of two: few classes, at most 12.5 % waste, and tensors of nearly
  /// the same size use each other's buffers.
  static size_t sizeClass(size_t bytes) {
    if (bytes <= kSmallest) return kSmallest;
    const size_t step = std::bit_floor(bytes) / 8;
    if (bytes > kAnyNumber - step) throw std::bad_alloc();
    return (bytes + step - 1) / step * step;
  }

  Block* takeBlock(size_t bytes, bool exact, bool zeros) {
    const size_t capacity = sizeClass(bytes);
    Block* block = nullptr;
    Block* dropped = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!zeros) block = reuse(capacity, exact ? capacity : capacity + capacity / 4);
      // Buffers that are in use one after the other share the memory of the larger one. Otherwise they would
      // displace each other.
      const bool full = statistics_.held + capacity > limit();
      if (block == nullptr && !exact && full) block = reuse(capacity, 4 * capacity);
      if (block == nullptr) {
        idle_.try_emplace(capacity, nullptr);  // lets giveBack() find the list
        statistics_.held += capacity;
      }
      statistics_.inUse += block == nullptr ? capacity : block->capacity;
      statistics_.peakInUse = std::max(statistics_.peakInUse, statistics_.inUse);
      peakNow_ = std::max(peakNow_, statistics_.inUse);
      if (block == nullptr) dropped = takeIdle(limit());
    }
    free(dropped);
    return block != nullptr ? block : allocate(capacity, zeros);
  }

  Block* allocate(size_t capacity, bool zeros) {
    auto block = std::unique_ptr<Block>(new (std::nothrow) Block);
    try {
      if (block == nullptr) throw std::bad_alloc();
      block->capacity = capacity;
      block->data =
          static_cast<std::byte*>(zeros ? memory_->allocateZeros(capacity) : memory_->allocate(capacity));
      return block.release();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      statistics_.held -= capacity;
      statistics_.inUse -= capacity;
      throw;
    }
  }

  /// Takes an idle block of at least `capacity` and at most `largest` bytes; nullptr: there is none.
  Block* reuse(size_t capacity, size_t largest) {
    for (auto found = idle_.lower_bound(capacity); found != idle_.end() && found->first <= largest; ++found) {
      // Last in, first out, because the last block is most likely in a cache.
      if (Block* const block = found->second) {
        found->second = std::exchange(block->next, nullptr);
        return block;
      }
    }
    return nullptr;
  }

  /// The limit of held bytes. The spare part is for small buffers, so that they do not displace large ones.
  size_t limit() const {
    const size_t peak = std::max(peakNow_, peakBefore_);
    return peak + peak / 4 * spare_.quarters;
  }

  void giveBack(Block* block) noexcept {
    Block* dropped = nullptr;
    {
      const std::lock_guard lock(mutex_);
      block->idleSince = ++returns_;
      block->next = std::exchange(idle_.find(block->capacity)->second, block);
      statistics_.inUse -= block->capacity;
      if (returns_ % kPeriod == 0) {
        peakBefore_ = std::exchange(peakNow_, statistics_.inUse);
        dropped = takeIdle(limit());
      } else if (statistics_.held - statistics_.inUse > spare_.most) {
        dropped = takeIdle(statistics_.inUse + spare_.most);
      }
    }
    free(dropped);
  }

  /// Takes out the blocks that are idle for the longest time, until the pool holds at most `bytes`.
  Block* takeIdle(size_t bytes) {
    Block* taken = nullptr;
    while (statistics_.held > bytes) {
      Block** oldest = nullptr;
      for (auto& [capacity, first] : idle_) {
        for (Block** at = &first; *at != nullptr; at = &(*at)->next) {
          if (oldest == nullptr || (*at)->idleSince < (*oldest)->idleSince) oldest = at;
        }
      }
      if (oldest == nullptr) break;
      Block* const block = *oldest;
      *oldest = std::exchange(block->next, taken);
      taken = block;
      statistics_.held -= block->capacity;
    }
    return taken;
  }

  void free(Block* blocks) const {
    while (blocks != nullptr) {
      memory_->free(blocks->data);
      delete std::exchange(blocks, blocks->next);
    }
  }

  const std::shared_ptr<Memory> memory_;
  const Spare spare_;
  mutable std::mutex mutex_;
  std::map<size_t, Block*> idle_;  // by capacity: a list, the last returned block first
  Statistics statistics_;
  size_t peakNow_ = 0;     // peak use in this period
  size_t peakBefore_ = 0;  // peak use in the period before
  uint64_t returns_ = 0;
};

}  // namespace hipress
