// SPDX-License-Identifier: Apache-2.0
//
// Allgather and alltoall, whose ranks need not have equally many rows. No rank knows the size of its result
// alone: a tensor's first step tells all ranks (one number to each, by the same graph), and its second step
// moves the blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/casync/graph/tensor.h"
#include "core/transport/transport.h"

namespace hipress {

class Engine;
class TensorTable;

struct BlockSubmission {
  const void* input = nullptr;  ///< The rows, unchanged until the end; nullptr if there are none.
  uint64_t rowElements = 1;     ///< The same on all ranks, as ranks compare the shape.
  std::vector<uint64_t> rows;   ///< Allgather: how many this rank has. Alltoall: how many are for each rank.
  std::shared_ptr<void> keepAlive;  ///< Owns the input.
  /// Told once how many rows come from each rank: returns where they go, in rank order, in memory that stays
  /// until the end. Runs on a thread of the engine; may throw.
  std::function<void*(std::span<const uint64_t> rowsFrom)> allocate;
  /// Called once at the end, as Submission::onDone.
  std::function<void(const Failure& failure)> onDone;
};

/// See Engine::moveBlocks().
void moveBlocks(Engine& engine, TensorTable& table, TensorSpec spec, BlockSubmission blocks);

}  // namespace hipress
