// SPDX-License-Identifier: Apache-2.0
//
// Staging memory for encoded messages and partial sums, reused from step to step: fresh pages cost more than
// the copies made into them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

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

  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// Thread-safe. The pool must outlive the buffer.
  Buffer take(size_t bytes);

  size_t bytesHeld() const;  ///< Allocated, in use or not.

 private:
  void giveBack(std::byte* data, size_t capacity);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<std::byte*>> free_;
  size_t bytesHeld_ = 0;
};

}  // namespace hipress
