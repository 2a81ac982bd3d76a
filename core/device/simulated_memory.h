// SPDX-License-Identifier: Apache-2.0
//
// Memory of a simulated device. Code on the host that reads or writes its addresses gets a segmentation
// fault. The device itself accesses the same bytes through a second mapping.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "core/base/memory.h"

namespace hipress {

class SimulatedMemory final : public Memory {
 public:
  SimulatedMemory() = default;
  ~SimulatedMemory() override;

  void* allocate(size_t bytes) override;
  void free(void* block) override;
  void zero(void* block, size_t bytes) override;
  void read(const void* block, void* host, size_t bytes) override;
  void write(void* block, const void* host, size_t bytes) override;

  /// The device's address of `bytes` bytes at `address`. Throws Error if they are not, or no longer, within a
  /// block.
  std::byte* real(const void* address, size_t bytes) const;

  size_t blocks() const override;

 private:
  struct Block {
    std::byte* real = nullptr;
    size_t bytes = 0;
  };

  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;  // key: the address on the host
};

/// Host memory of which a simulated device checks its copies.
class SimulatedStaging final : public Memory {
 public:
  ~SimulatedStaging() override;

  void* allocate(size_t bytes) override;
  void free(void* block) override;
  size_t blocks() const override;

  /// Throws Error unless the bytes are within a block.
  void check(const void* address, size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, size_t> blocks_;
};

}  // namespace hipress
