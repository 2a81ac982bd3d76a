// SPDX-License-Identifier: Apache-2.0
//
// Memory of a simulated device. Its addresses cannot be read or written: whoever on the host uses one gets a
// segmentation fault. The device itself reaches the same bytes through a second mapping.
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

  /// Where the device finds `bytes` bytes at that address. Throws Error if they are not, or no longer, within
  /// a block.
  std::byte* real(const void* address, size_t bytes) const;

  size_t blocks() const override;

 private:
  struct Block {
    std::byte* real = nullptr;
    size_t bytes = 0;
  };

  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;  // by the address that the host sees
};

/// Memory of the host, of which a simulated device knows whether it may copy there.
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
