// SPDX-License-Identifier: Apache-2.0
//
// Where pools take blocks from if not from the host: a device's memory, which the host may not touch but
// only have copied, or memory of the host that a device copies from and to.
#pragma once

#include <cstddef>

namespace hipress {

class Memory {
 public:
  virtual ~Memory() = default;

  /// Thread-safe, all of them. Aligned to 64 bytes. Throws std::bad_alloc. Costs much; pools keep what they
  /// have.
  virtual void* allocate(size_t bytes) = 0;
  /// Nothing works on it any more.
  virtual void free(void* block) = 0;

  /// These wait, for what happens once in a while. No work that writes there is under way.
  virtual void zero(void* block, size_t bytes) = 0;
  virtual void read(const void* block, void* host, size_t bytes) = 0;
  virtual void write(void* block, const void* host, size_t bytes) = 0;

  virtual size_t blocks() const = 0;  ///< Allocated now.
};

}  // namespace hipress
