// SPDX-License-Identifier: Apache-2.0
//
// The sources of blocks for pools: the host's memory, a device's memory, which the host may not access, or
// host memory for copies from and to a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace hipress {

class Memory {
 public:
  virtual ~Memory() = default;

  /// All functions are thread-safe. Blocks are aligned to 64 bytes. Throws std::bad_alloc. An allocation is
  /// slow, so pools keep their blocks.
  virtual void* allocate(size_t bytes) = 0;
  /// No work may use the block any more.
  virtual void free(void* block) = 0;
  virtual void* allocateZeros(size_t bytes) {
    void* const block = allocate(bytes);
    try {
      zero(block, bytes);
      return block;
    } catch (...) {
      free(block);
      throw;
    }
  }

  // These functions wait until they are done. No other work may be writing to the block.
  virtual void zero(void* block, size_t bytes) { std::memset(block, 0, bytes); }
  // For 0 bytes the pointers may be nullptr, which memcpy() does not allow.
  virtual void read(const void* block, void* host, size_t bytes) {
    if (bytes > 0) std::memcpy(host, block, bytes);
  }
  virtual void write(void* block, const void* host, size_t bytes) {
    if (bytes > 0) std::memcpy(block, host, bytes);
  }

  virtual size_t blocks() const = 0;  ///< the number of allocated blocks
};

/// Zeros come from calloc(), so large blocks take no memory before the first write.
class HostMemory final : public Memory {
 public:
  void* allocate(size_t bytes) override { return aligned(std::malloc(bytes + kRoom), bytes); }
  void* allocateZeros(size_t bytes) override { return aligned(std::calloc(bytes + kRoom, 1), bytes); }
  void free(void* block) override {
    const Header header = *headerOf(block);
    bytes_.fetch_sub(header.bytes, std::memory_order_relaxed);
    blocks_.fetch_sub(1, std::memory_order_relaxed);
    std::free(header.allocation);
  }
  size_t blocks() const override { return blocks_.load(std::memory_order_relaxed); }
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }  ///< bytes of all blocks

 private:
  struct Header {
    void* allocation;
    size_t bytes;
  };
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kRoom = 2 * kAlignment;

  static Header* headerOf(void* block) { return static_cast<Header*>(block) - 1; }
  void* aligned(void* allocation, size_t bytes) {
    if (allocation == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(allocation);
    auto* const block = static_cast<std::byte*>(allocation) + (kRoom - address % kAlignment);
    ::new (headerOf(block)) Header{allocation, bytes};
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    blocks_.fetch_add(1, std::memory_order_relaxed);
    return block;
  }

  std::atomic<size_t> bytes_{0};
  std::atomic<size_t> blocks_{0};
};

inline const std::shared_ptr<HostMemory> hostMemory = std::make_shared<HostMemory>();

}  // namespace hipress
