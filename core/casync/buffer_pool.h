// SPDX-License-Identifier: Apache-2.0
//
// Staging memory for encoded messages and partial sums, reused from step to step: fresh pages cost more than
// the copies made into them. The pool holds at most a quarter more than what was in use at a time not long
// ago, so that a large tensor that was synchronised once does not keep its memory for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/codec/memory.h"

namespace hipress {

class BufferPool {
 public:
  /// Memory of at least the size asked for, aligned to 64 bytes; goes back to the pool when destroyed.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept;
    ~Buffer() { release(); }

    std::byte* data() const { return data_; }
    explicit operator bool() const { return data_ != nullptr; }
    std::span<std::byte> first(size_t bytes) const { return {data_, bytes}; }
    std::span<float> floats(size_t count) const { return {reinterpret_cast<float*>(data_), count}; }
    void release();

   private:
    friend class BufferPool;
    std::byte* data_ = nullptr;
    size_t capacity_ = 0;
    BufferPool* pool_ = nullptr;
  };

  /// Of buffers on the host, or in `memory`.
  explicit BufferPool(std::shared_ptr<Memory> memory = nullptr);
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Thread-safe. The pool must outlive the buffer.
  Buffer take(size_t bytes);

  struct Statistics {
    size_t held = 0;  ///< Bytes allocated, in use or idle.
    size_t inUse = 0;
    size_t peakInUse = 0;  ///< The most that was in use at a time since the start.
  };
  Statistics statistics() const;

 private:
  struct Idle {
    std::byte* data = nullptr;
    uint64_t since = 0;
  };
  using Freed = std::vector<std::byte*>;

  std::byte* allocate(size_t capacity) const;
  void free(std::byte* data) const;
  void giveBack(std::byte* data, size_t capacity);
  std::byte* reuse(size_t* capacity, size_t largest);
  void countInUse(size_t capacity);
  size_t limit() const;
  void shrinkTo(size_t bytes, Freed& freed);

  const std::shared_ptr<Memory> memory_;  // nullptr: the host's
  mutable std::mutex mutex_;
  std::map<size_t, std::deque<Idle>> idle_;  // by capacity; in each the oldest first
  Statistics statistics_;
  size_t peakNow_ = 0;     // most in use in this period
  size_t peakBefore_ = 0;  // and in the one before
  uint64_t returns_ = 0;
};

}  // namespace hipress
