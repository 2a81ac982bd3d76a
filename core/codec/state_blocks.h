// SPDX-License-Identifier: Apache-2.0
//
// Memory for codecs' states. What one partition no longer needs serves the next of its size: fresh pages cost
// more than what is written into them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/codec/memory.h"

namespace hipress {

class StateBlocks;

/// Floats, aligned to 64 bytes; shared by the store and whoever reads them at the moment. The last owner's
/// end gives them back to the pool. No std::shared_ptr, which allocates for each block that is taken.
class StateBlock {
 public:
  StateBlock() = default;
  StateBlock(const StateBlock& other) noexcept;
  StateBlock(StateBlock&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  StateBlock& operator=(StateBlock other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~StateBlock();

  float* get() const;
  bool operator==(std::nullptr_t) const { return memory_ == nullptr; }

 private:
  friend class StateBlocks;
  struct Memory;
  explicit StateBlock(Memory* memory) : memory_(memory) {}
  Memory* memory_ = nullptr;
};

class StateBlocks : public std::enable_shared_from_this<StateBlocks> {
 public:
  /// Use std::make_shared: blocks keep their pool alive.
  StateBlocks() = default;
  /// In that memory rather than the host's.
  explicit StateBlocks(std::shared_ptr<Memory> place) : place_(std::move(place)) {}
  ~StateBlocks();
  StateBlocks(const StateBlocks&) = delete;
  StateBlocks& operator=(const StateBlocks&) = delete;

  /// Room for `count` floats with any values.
  StateBlock take(size_t count);
  /// Zeros, fresh from the system: on the host they take no memory before they are written.
  StateBlock takeZeros(size_t count);

  /// Whether blocks are the host's own.
  bool onHost() const { return place_ == nullptr; }
  /// Copies, between the host and wherever blocks are.
  void read(const StateBlock& block, std::span<float> values) const;
  void write(const StateBlock& block, std::span<const float> values) const;

  /// Frees all spares, and forgets how many were needed: after many blocks have come back at once.
  void trim();

  size_t bytesHeld() const;  ///< Allocated, in use or spare.

 private:
  friend class StateBlock;
  using Block = StateBlock::Memory;

  Block* allocate(size_t bytes, bool zeros) const;
  StateBlock fresh(size_t count, bool zeros);
  void release(Block* memory) const;
  StateBlock owned(Block* memory);
  void giveBack(Block* memory);

  /// Blocks of one size. No more are kept than were once used at the same time: what each step writes before
  /// it gives back what it has read.
  struct Size {
    std::vector<Block*> spares;  // the one given back last is the last
    size_t used = 0;
    size_t mostUsed = 0;

    void addUsed() { mostUsed = std::max(mostUsed, ++used); }
  };

  const std::shared_ptr<Memory> place_;  // nullptr: the host
  mutable std::mutex mutex_;
  std::map<size_t, Size> sizes_;  // by bytes
};

}  // namespace hipress
