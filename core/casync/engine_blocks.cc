// SPDX-License-Identifier: Apache-2.0
//
// Allgather and alltoall. Their result has a size that no rank knows alone, so a tensor's first step tells
// all ranks (one number to each, by the same graph), and its second step moves the blocks.
#include <numeric>
#include <string>
#include <utility>

#include "core/casync/engine.h"

namespace hipress {
namespace {

/// What the two steps share.
struct Moving {
  TensorSpec spec;
  BlockSubmission blocks;
  std::vector<uint64_t> rowsFrom;
};

void checkBlocks(const TensorSpec& spec, const BlockSubmission& blocks, int worldSize) {
  const bool alltoall = spec.collective == Collective::kAlltoall;
  if (!alltoall && spec.collective != Collective::kAllgather)
    throw invalidArgument("tensor '" + spec.name + "': only allgather and alltoall move blocks");
  const size_t expected = alltoall ? static_cast<size_t>(worldSize) : 1;
  if (blocks.rows.size() == expected) return;
  throw invalidArgument("tensor '" + spec.name + "': " + std::to_string(blocks.rows.size()) +
                        " numbers of rows were given, needed is one" + (alltoall ? " for each rank" : ""));
}

/// Rows as elements. Throws CorruptPayload for more than there can be.
std::vector<uint64_t> elementsOf(const TensorSpec& spec, const std::vector<uint64_t>& rows,
                                 uint64_t rowElements) {
  constexpr uint64_t kMost = uint64_t{1} << 56;  // bytes of all blocks together
  const uint64_t rowBytes = rowElements * elementSize(spec.dtype);
  uint64_t room = rowBytes == 0 ? kMost : kMost / rowBytes;
  std::vector<uint64_t> elements;
  for (const uint64_t count : rows) {
    if (count > room) {
      throw corruptPayload("tensor '" + spec.name + "': rank " + std::to_string(elements.size()) +
                           " says that it sends " + std::to_string(count) + " rows");
    }
    room -= count;
    elements.push_back(count * rowElements);
  }
  return elements;
}

uint64_t total(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace

void Engine::moveBlocks(TensorSpec spec, BlockSubmission blocks) {
  checkBlocks(spec, blocks, worldSize_);
  auto moving = std::make_shared<Moving>();
  moving->blocks = std::move(blocks);
  moving->rowsFrom.resize(static_cast<size_t>(worldSize_));
  spec.transient = true;
  spec.received.clear();
  spec.sent.clear();
  moving->spec = std::move(spec);
  const TensorHandle handle = declareOne(moving->spec, moving->spec.name);

  Submission sizes;
  sizes.input = moving->blocks.rows.data();
  sizes.output = moving->rowsFrom.data();
  sizes.keepAlive = moving;
  sizes.onDone = [this, moving, handle](const Failure& failure, bool) {
    if (failure) return moving->blocks.onDone(failure);
    try {
      TensorSpec second = moving->spec;
      const auto given = elementsOf(second, moving->blocks.rows, moving->blocks.rowElements);
      second.received = elementsOf(second, moving->rowsFrom, moving->blocks.rowElements);
      if (second.collective == Collective::kAlltoall) second.sent = given;
      second.count = total(given);
      submitSecondStep(handle, std::move(second), moving->blocks, moving->blocks.allocate(moving->rowsFrom),
                       moving);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      const Error reason = known != nullptr
                               ? *known
                               : transportError("tensor '" + moving->spec.name +
                                                "': its result cannot be received: " + error.what());
      // Of a mismatch the others know; nothing else is affected.
      if (reason.kind() != ErrorKind::kMismatch) fail(reason);
      moving->blocks.onDone(std::make_shared<Error>(reason));
    }
  };
  submit(handle, std::move(sizes));
}

/// No rank is asked: all know the same by now.
void Engine::submitSecondStep(TensorHandle handle, TensorSpec spec, const BlockSubmission& blocks,
                              void* output, const std::shared_ptr<void>& keepAlive) {
  Entry entry;
  entry.tensor = planned(std::move(spec), handle);
  entry.device = deviceQueueFor(*entry.tensor);
  entry.nextStep = 1;
  {
    const std::lock_guard lock(mutex_);
    if (auto early = earlyConflicts_.extract(handle)) entry.conflict = std::move(early.mapped());
    tensors_[handle] = std::move(entry);
  }
  // A null input would mean "no values in this step".
  static std::byte nothing;
  Submission values;
  values.input = blocks.input == nullptr ? &nothing : blocks.input;
  values.output = output;
  values.keepAlive = keepAlive;
  values.onDone = [onDone = blocks.onDone](const Failure& failure, bool) { onDone(failure); };
  submit(handle, std::move(values));
}

}  // namespace hipress
