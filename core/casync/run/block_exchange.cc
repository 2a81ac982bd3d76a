// SPDX-License-Identifier: Apache-2.0
#include "core/casync/run/block_exchange.h"

#include <numeric>
#include <string>
#include <utility>

#include "core/casync/run/engine.h"

namespace hipress {
namespace {

struct BlockExchange {
  TensorSpec spec;
  BlockSubmission blocks;
  std::vector<uint64_t> rowsFrom;
  TensorHandle number = 0;  // of the tensor; known when its first step starts
};

void checkBlocks(const TensorSpec& spec, const BlockSubmission& blocks, int ranks) {
  const bool alltoall = spec.collective() == Collective::kAlltoall;
  if (!alltoall && spec.collective() != Collective::kAllgather)
    throw invalidArgument("tensor '" + spec.name + "': only allgather and alltoall move blocks");
  const size_t expected = alltoall ? static_cast<size_t>(ranks) : 1;
  if (blocks.rows.size() == expected) return;
  throw invalidArgument("tensor '" + spec.name + "': " + std::to_string(blocks.rows.size()) +
                        " row counts were given; give one" + (alltoall ? " for each rank" : ""));
}

/// The element counts of these row counts. Throws CorruptPayload if the blocks exceed kMost bytes in all.
std::vector<uint64_t> elementsOf(const TensorSpec& spec, const std::vector<uint64_t>& rows,
                                 uint64_t rowElements) {
  constexpr uint64_t kMost = uint64_t{1} << 56;  // bytes of all blocks together
  const uint64_t rowBytes = rowElements * elementSize(spec.dtype);
  uint64_t room = rowBytes == 0 ? kMost : kMost / rowBytes;
  std::vector<uint64_t> elements;
  for (const uint64_t count : rows) {
    if (count > room) {
      throw corruptPayload("tensor '" + spec.name + "': rank " +
                           std::to_string(rankAt(spec.among, elements.size())) + " says that it sends " +
                           std::to_string(count) + " rows");
    }
    room -= count;
    elements.push_back(count * rowElements);
  }
  return elements;
}

uint64_t total(const std::vector<uint64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

/// Starts the step that moves the blocks. No rank is asked: after the first step every rank knows all sizes.
void startSecondStep(Engine& engine, TensorTable& table, const std::shared_ptr<BlockExchange>& exchange) {
  const BlockSubmission& blocks = exchange->blocks;
  TensorSpec spec = exchange->spec;
  const auto given = elementsOf(spec, blocks.rows, blocks.rowElements);
  auto received = elementsOf(spec, exchange->rowsFrom, blocks.rowElements);
  if (spec.collective() == Collective::kAlltoall) {
    spec.options = AlltoallOptions{std::move(received), given};
  } else {
    spec.options = AllgatherOptions{std::move(received)};
  }
  spec.count = total(given);
  // The engine reads a null input as "this rank has no values in this step".
  static std::byte nothing;
  Submission values;
  values.input = blocks.input == nullptr ? &nothing : blocks.input;
  values.output = blocks.allocate(exchange->rowsFrom);
  values.keepAlive = exchange;
  values.onDone = [onDone = blocks.onDone](const Failure& failure, bool) { onDone(failure); };
  table.enterAtStep(exchange->number, std::move(spec), 1);
  engine.submit(exchange->number, std::move(values));
}

}  // namespace

void moveBlocks(Engine& engine, TensorTable& table, TensorSpec spec, BlockSubmission blocks) {
  const int ranks = sizeOf(spec.among, engine.worldSize());
  checkBlocks(spec, blocks, ranks);
  spec.transient = true;
  if (spec.collective() == Collective::kAlltoall) spec.options = AlltoallOptions{};
  if (spec.collective() == Collective::kAllgather) spec.options = AllgatherOptions{};
  auto exchange = std::make_shared<BlockExchange>();
  exchange->spec = std::move(spec);
  exchange->blocks = std::move(blocks);
  exchange->rowsFrom.resize(static_cast<size_t>(ranks));
  const TensorHandle handle =
      engine.announce(exchange->spec, [exchange](uint32_t number) { exchange->number = number; });

  Submission sizes;
  sizes.input = exchange->blocks.rows.data();
  sizes.output = exchange->rowsFrom.data();
  sizes.keepAlive = exchange;
  sizes.onDone = [&engine, &table, exchange](const Failure& failure, bool) {
    if (failure) return exchange->blocks.onDone(failure);
    try {
      startSecondStep(engine, table, exchange);
    } catch (const std::exception& error) {
      const auto* known = dynamic_cast<const Error*>(&error);
      const Error reason = known != nullptr
                               ? *known
                               : transportError("tensor '" + exchange->spec.name +
                                                "': its result cannot be received: " + error.what());
      // Every rank gets a mismatch for this tensor only, so the engine continues.
      if (reason.kind() != ErrorKind::kMismatch) engine.fail(reason);
      exchange->blocks.onDone(std::make_shared<Error>(reason));
    }
  };
  engine.submit(handle, std::move(sizes));
}

}  // namespace hipress
