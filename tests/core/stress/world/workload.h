// SPDX-License-Identifier: Apache-2.0
//
// Tensors of all kinds, their values in every step, and what must come out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/casync/run/engine.h"
#include "tests/core/stress/world/random.h"

namespace hipress::stress {

/// What all ranks do: every tensor is synchronised once per step.
struct Workload {
  uint64_t seed = 0;
  int worldSize = 1;
  int steps = 1;
  bool inOrder = false;  ///< Ranks submit in the same order, as they must without pipelining.
  std::vector<TensorSpec> specs;
};

/// The shape of the most square matrix of `count` elements, as in a TensorSpec.
std::string matrixShape(size_t count);

Workload randomWorkload(Random& random, int worldSize, int tensors);

/// The memory of one submission. Only the engine and whoever waits hold it: freed too early, a sanitizer sees
/// it.
struct StepMemory {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  bool hasInput = true;
  bool inPlace = false;
};

/// The same on every rank that asks: rank's values of that tensor in that step.
std::shared_ptr<StepMemory> memoryFor(const Workload& workload, size_t tensor, int step, int rank);

/// Counts how often engines let go of memory.
struct Releases {
  std::atomic<int> given{0};
  std::atomic<int> returned{0};
};

/// A submission that keeps `memory` alive until the engine is done with it.
Submission submissionOf(const std::shared_ptr<StepMemory>& memory, Releases& releases);

/// What `none` must give, element by element in rank order. False if no rank has values.
bool expectedOf(const Workload& workload, size_t tensor, int step, std::vector<std::byte>* expected);

}  // namespace hipress::stress
