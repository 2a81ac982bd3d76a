// SPDX-License-Identifier: Apache-2.0
//
// The whole grid, at sizes that a sanitizer can bear: every topology with every codec, world size, size and
// number of partitions, under every kind of engine. Several steps use the same graphs and states again. A
// cell is a world; all its tensors are in flight at once.
#include <memory>
#include <string>
#include <vector>

#include "tests/core/stress/scenarios/collectives.h"
#include "tests/core/stress/scenarios/scenarios.h"

namespace hipress::stress {
namespace {

constexpr int kWorldSizes[] = {1, 2, 3, 4, 5, 7, 8};
constexpr const char* kTopologies[] = {"ps",
                                       "ring",
                                       "butterfly",
                                       "allgather",
                                       "hierarchical",
                                       "hierarchical(ring)",
                                       "hierarchical(butterfly)",
                                       "hierarchical(allgather)"};
constexpr const char* kPowerSgd = "powersgd(rank=2, min_ratio=0.001)";
constexpr const char* kCodecs[] = {"none",
                                   "fp16",
                                   "onebit(block=1024)",
                                   "tbq",
                                   "terngrad",
                                   "dgc(ratio=0.05)",
                                   "graddrop(ratio=0.05)",
                                   "bf16",
                                   "int8",
                                   "int4(block=100)",
                                   "fp8_e4m3",
                                   "fp4_e2m1",
                                   "randomk(ratio=0.1)",
                                   kPowerSgd};
constexpr size_t kSizes[] = {0, 1, 7, 1000, 4097, 8200};
/// A size whose partition the compute threads share.
constexpr size_t kShared = (1 << 18) + 1;

EngineOptions base() {
  EngineOptions options;
  options.timeout = Milliseconds(100000);
  options.seed = 7;
  return options;
}

/// Engine options with which everything goes through queues, windows, link rounds and bundles, and is traced.
EngineOptions queued() {
  EngineOptions options = base();
  options.computeThreads = 3;
  options.inlineElements = 0;
  options.communication.windowBytes = 1 << 13;
  options.communication.bundle.bytes = 1 << 12;
  options.communication.bundle.messageBytes = 1 << 10;
  options.communication.bundle.always = true;
  options.communication.schedule.rounds = true;
  options.communication.schedule.roundBytes = 1 << 13;
  options.trace = std::make_shared<TraceRecorder>(0, 1000);
  return options;
}

/// Engine options with which small tasks run at once, and messages go alone in the order of their arrival.
EngineOptions direct() {
  EngineOptions options = base();
  options.inlineElements = 4096;
  options.priorities = false;
  options.communication.bundle.bytes = 0;
  return options;
}

EngineOptions oneByOne() {
  EngineOptions options = base();
  options.computeThreads = 2;
  options.inlineElements = 1000;
  options.pipelining = false;
  options.communication.bundle.messageBytes = 1 << 10;
  options.communication.schedule.coordinator = true;
  return options;
}

/// Add another kind of engine here to run the grid with it.
constexpr EngineOptions (*kEngines[])() = {queued, direct, oneByOne};

struct Cell {
  int worldSize = 1;
  std::string topology;
  EngineOptions options;
  std::vector<size_t> sizes;
};

std::vector<Cell> cells() {
  std::vector<Cell> all;
  for (const auto engine : kEngines) {
    for (const int worldSize : kWorldSizes) {
      for (const char* topology : kTopologies) {
        all.push_back({worldSize, topology, engine(), {std::begin(kSizes), std::end(kSizes)}});
      }
    }
  }
  for (const char* topology : kTopologies) all.push_back({3, topology, queued(), {kShared}});
  // Each host has two ranks; with an odd number of ranks the last host has one.
  for (Cell& cell : all) {
    for (int rank = 0; rank < cell.worldSize; ++rank) cell.options.hosts.push_back(rank / 2);
  }
  return all;
}

Workload workloadOf(Random& random, const Cell& cell) {
  Workload workload;
  workload.seed = random.seed();
  workload.worldSize = cell.worldSize;
  workload.steps = 3;
  workload.inOrder = !cell.options.pipelining;
  for (const char* codec : kCodecs) {
    for (const size_t size : cell.sizes) {
      for (const int partitions : {1, 2, cell.worldSize, 2 * cell.worldSize + 1}) {
        if (size == kShared && partitions > 1) continue;
        TensorSpec spec;
        spec.name = "tensor " + std::to_string(workload.specs.size());
        spec.count = size;
        spec.shape = codec == kPowerSgd && size > 0 ? matrixShape(size) : "[" + std::to_string(size) + "]";
        auto& options = std::get<AllreduceOptions>(spec.options);
        options.codec = codec;
        options.topology = cell.topology;
        options.partitions = partitions;
        workload.specs.push_back(std::move(spec));
      }
    }
  }
  return workload;
}

}  // namespace

int gridCells() {
  return static_cast<int>(cells().size());
}

void runGridCell(Random& random, int number) {
  const Cell cell = cells().at(static_cast<size_t>(number));
  World world = inprocWorld(cell.worldSize, cell.options);
  runCollectives(random, world, workloadOf(random, cell));
}

}  // namespace hipress::stress
