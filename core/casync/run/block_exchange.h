// SPDX-License-Identifier: Apache-2.0
//
// Allgather and alltoall. The ranks may have different numbers of rows, so no rank alone knows the size of
// its result. In the first step of the tensor each rank sends its row counts to all ranks, one number to
// each, by the same task graph. The second step moves the blocks.
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
  const void* input = nullptr;      ///< The caller's rows, unchanged until the end; nullptr: no rows.
  uint64_t rowElements = 1;         ///< Elements of a row. Ranks compare the shape, so all have the same.
  std::vector<uint64_t> rows;       ///< Allgather: the row count of this rank. Alltoall: one per destination.
  std::shared_ptr<void> keepAlive;  ///< Owns the input.
  /// Called once with the number of rows from each rank of the process set. Returns the memory for all
  /// received rows, in rank order; the memory stays valid until the end. Runs on a thread of the engine; may
  /// throw.
  std::function<void*(std::span<const uint64_t> rowsFrom)> allocate;
  /// Called once when the exchange has ended, like Submission::onDone.
  std::function<void(const Failure& failure)> onDone;
};

/// See Engine::moveBlocks().
void moveBlocks(Engine& engine, TensorTable& table, TensorSpec spec, BlockSubmission blocks);

}  // namespace hipress
