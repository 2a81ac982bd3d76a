// SPDX-License-Identifier: Apache-2.0
//
// The arguments of a kernel: its object, or a table of many objects. With a table one launch does the work of
// all of them, and each block of threads finds its own object.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hipress::cuda {

/// CUDA passes so many bytes of arguments.
inline constexpr size_t kMostArgumentBytes = 4096;

/// The pointers are the device's.
struct alignas(16) StartTable {
  const void* kernels;   ///< The objects, one behind the other.
  const uint32_t* ends;  ///< For each object the number of its blocks and of the blocks before them.
  uint32_t number;       ///< Of objects; 0: there is one, behind this table.
};

/// `Kernel` is aligned to at most 16 bytes, so it lies directly behind the table.
template <typename Kernel>
struct Start {
  StartTable table;
  Kernel kernel;

  static_assert(sizeof(StartTable) + sizeof(Kernel) <= kMostArgumentBytes &&
                alignof(Kernel) <= alignof(StartTable));
};

}  // namespace hipress::cuda
