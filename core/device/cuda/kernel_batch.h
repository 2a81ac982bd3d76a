// SPDX-License-Identifier: Apache-2.0
//
// Starts of kernels that wait, line by line, until those of many lines become few: the n-th starts of all
// lines, as far as they are of one kernel, are one start with a table (ops/cuda/start.h).
#pragma once

#include <cstddef>
#include <vector>

#include "core/device/cuda/driver.h"
#include "core/ops/cuda/start.h"

namespace hipress::cuda {

/// The starts of one line come one after the other; those of other lines may come before, between and behind
/// them.
class KernelBatch {
 public:
  /// Later calls of add() belong to a new line.
  void beginLine() { lines_.emplace_back(); }
  /// Copies the kernel's object. Throws std::bad_alloc.
  void add(DriverFunction function, unsigned blocks, const void* kernel, size_t bytes);

  /// A start of all objects of a kernel that come together.
  struct Joined {
    DriverFunction function = nullptr;
    unsigned blocks = 0;
    size_t bytes = 0;             ///< Of each object.
    const void* alone = nullptr;  ///< The object, if there is only one; otherwise:
    size_t number = 0;
    size_t kernelsAt = 0;  ///< Of the table's lists, in `tables`.
    size_t endsAt = 0;
  };
  /// The starts in their order, and the tables' lists, which the device must have before the kernels run.
  std::vector<Joined> join(std::vector<std::byte>& tables) const;

 private:
  struct One {
    DriverFunction function;
    unsigned blocks;
    size_t at;  // in objects_
    size_t bytes;
  };

  std::vector<std::vector<One>> lines_;
  std::vector<std::byte> objects_;
};

}  // namespace hipress::cuda
