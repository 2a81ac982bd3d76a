// SPDX-License-Identifier: Apache-2.0
//
// Memory for codecs' states. What one partition no longer needs serves the next: fresh pages cost more than
// what is written into them.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

namespace hipress {

/// Floats, aligned to 64 bytes; shared by the store and whoever reads them at the moment. The last owner's
/// end gives them back to the pool.
using StateBlock = std::shared_ptr<float>;

class StateBlocks : public std::enable_shared_from_this<StateBlocks> {
 public:
  /// Use std::make_shared: blocks keep their pool alive.
  StateBlocks() = default;
  ~StateBlocks();
  StateBlocks(const StateBlocks&) = delete;
  StateBlocks& operator=(const StateBlocks&) = delete;

  /// Room for `count` floats with any values.
  StateBlock take(size_t count);
  /// Zeros, fresh from the system: they take no memory before they are written.
  StateBlock takeZeros(size_t count);

  /// Frees all spares, and forgets how many were needed: after many blocks have come back at once.
  void trim();

  size_t bytesHeld() const;  ///< Allocated, in use or spare.

 private:
  struct Memory {
    void* allocation = nullptr;
    float* floats = nullptr;
    size_t bytes = 0;
  };

  static Memory allocate(size_t bytes);
  StateBlock owned(const Memory& memory);
  void giveBack(const Memory& memory);

  mutable std::mutex mutex_;
  std::list<Memory> spares_;  // the one given back last is the last
  size_t spareBytes_ = 0;
  size_t usedBytes_ = 0;
  size_t mostUsedBytes_ = 0;
};

}  // namespace hipress
