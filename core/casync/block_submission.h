// SPDX-License-Identifier: Apache-2.0
//
// The values of an allgather or an alltoall, whose ranks need not have equally many rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/transport/transport.h"

namespace hipress {

struct BlockSubmission {
  const void* input = nullptr;  ///< The rows, unchanged until the end; nullptr if there are none.
  uint64_t rowElements = 1;     ///< The same on all ranks, as the shape says that they compare.
  std::vector<uint64_t> rows;   ///< Allgather: how many this rank has. Alltoall: how many are for each rank.
  std::shared_ptr<void> keepAlive;  ///< Owns the input.
  /// Told once how many rows come from each rank: returns where they go, in rank order. On some thread of the
  /// engine; may throw. What it returns must stay until the end.
  std::function<void*(std::span<const uint64_t> rowsFrom)> allocate;
  /// Called once at the end, on whichever thread ended it: as Submission::onDone.
  std::function<void(const Failure& failure)> onDone;
};

}  // namespace hipress
