// SPDX-License-Identifier: Apache-2.0
//
// Tensors of all kinds, their values in every step, and the expected results.
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

/// The work of all ranks: every tensor is synchronised once per step.
struct Workload {
  uint64_t seed = 0;
  int worldSize = 1;
  int steps = 1;
  bool bySteps = false;  ///< The states of all tensors change together.
  bool inOrder = false;  ///< Ranks submit in the same order, which is a must without pipelining.
  std::vector<TensorSpec> specs;
};

/// The shape of the most square matrix of `count` elements, as in a TensorSpec.
std::string matrixShape(size_t count);

Workload randomWorkload(Random& random, int worldSize, int tensors);

/// The memory of one submission. Only the engine and the waiting caller hold it, so a sanitizer reports a use
/// after the engine has freed it.
struct StepMemory {
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  bool hasInput = true;
  bool inPlace = false;
};

/// The values of rank `rank` of this tensor in this step; every rank can compute them.
std::shared_ptr<StepMemory> memoryFor(const Workload& workload, size_t tensor, int step, int rank);

/// Counts how often engines release memory.
struct Releases {
  std::atomic<int> given{0};
  std::atomic<int> returned{0};
};

/// A submission that keeps `memory` alive until the engine is done with it.
Submission submissionOf(const std::shared_ptr<StepMemory>& memory, Releases& releases);

/// The result with `none`, element by element in rank order. Returns false if no rank has values.
bool expectedOf(const Workload& workload, size_t tensor, int step, std::vector<std::byte>* expected);

}  // namespace hipress::stress
