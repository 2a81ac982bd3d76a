// SPDX-License-Identifier: Apache-2.0
//
// Ranks with other numbers of steps, which join() when they have no more, again and again with the same
// tensors.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

constexpr const char* kTopologies[] = {"ps", "ring", "butterfly", "allgather"};
constexpr const char* kCodecs[] = {"none", "onebit", "int8", "powersgd", "int8_shared"};
constexpr size_t kRounds = 3;

TensorSpec sumOf(Random& random, const std::string& name, bool transient) {
  TensorSpec spec;
  spec.name = name;
  const size_t rows = 1 + random.below(40);
  const size_t columns = 1 + random.below(60);
  spec.count = rows * columns;
  spec.shape = "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
  spec.transient = transient;
  AllreduceOptions how;
  how.reduction = Reduction::kSum;
  how.codec = kCodecs[random.below(std::size(kCodecs))];
  how.topology = kTopologies[random.below(std::size(kTopologies))];
  spec.options = how;
  return spec;
}

struct Waiting {
  OperationHandle operation;
  std::shared_ptr<std::vector<float>> values;
};

/// Every value is 2: each codec keeps it, and sums count the ranks.
Waiting submit(Engine& engine, TensorHandle tensor, size_t count) {
  auto values = std::make_shared<std::vector<float>>(count, 2.0f);
  Submission submission;
  submission.input = values->data();
  submission.output = values->data();
  submission.keepAlive = values;
  return {engine.submit(tensor, std::move(submission)), std::move(values)};
}

}  // namespace

void stressJoins(Random& random) {
  EngineOptions options = randomOptions(random);
  options.pipelining = true;  // without it all ranks start operations in one order
  World world = inprocWorld(random.among({2, 3, 4}), options);
  std::vector<TensorSpec> kept;
  for (size_t number = 0; number < 4; ++number)
    kept.push_back(sumOf(random, "kept " + std::to_string(number), false));
  // By round and rank.
  std::vector<std::vector<size_t>> steps(kRounds);
  for (auto& ofRanks : steps) {
    for (int rank = 0; rank < world.size(); ++rank) ofRanks.push_back(random.below(6));
  }
  const uint64_t seed = random.seed();
  inThreads(world.size(), [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    Random own(seed + static_cast<uint64_t>(rank));
    const std::vector<TensorHandle> tensors = engine.agree("list", kept);
    for (size_t round = 0; round < kRounds; ++round) {
      for (size_t step = 0; step < steps[round][static_cast<size_t>(rank)]; ++step) {
        std::vector<Waiting> waiting;
        std::vector<size_t> order = {0, 1, 2, 3};
        own.shuffle(order);
        for (const size_t index : order) waiting.push_back(submit(engine, tensors[index], kept[index].count));
        // All ranks that have this step make the same call.
        const std::string name = "call " + std::to_string(round) + "." + std::to_string(step);
        Random same(seed ^ (1000 * round + step));
        const TensorSpec call = sumOf(same, name, true);
        waiting.push_back(submit(engine, engine.announce(call), call.count));
        const auto present = static_cast<float>(
            std::count_if(steps[round].begin(), steps[round].end(), [&](size_t all) { return all > step; }));
        for (const Waiting& each : waiting) {
          while (!engine.wait(each.operation, Milliseconds(100))) continue;
          for (const float value : *each.values)
            CHECK(value > 1.98f * present && value < 2.02f * present, value, present, round, step);
        }
      }
      const int last = engine.join();
      CHECK(last >= 0 && last < world.size(), last);
    }
  });
  shutDown(world);
}

}  // namespace hipress::stress
