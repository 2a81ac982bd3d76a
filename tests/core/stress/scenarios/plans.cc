// SPDX-License-Identifier: Apache-2.0
//
// After some steps tensors travel another way: alone or in groups, with other codecs, topologies and
// partitions. Ranks submit in other orders from several threads; all must have the same bytes in every step.
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/workload.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

constexpr size_t kTensors = 10;
constexpr int kPlans = 3;
constexpr int kStepsPerPlan = 2;

struct Result {
  bool absent = false;
  std::vector<std::byte> bytes;
};
/// Results by step and tensor.
using Results = std::vector<std::vector<Result>>;

struct Way {
  std::string codec;
  std::string topology;
  int partitions = 0;
};

Way randomWay(Random& random) {
  return {random.among({"none", "onebit", "terngrad", "dgc(ratio=0.1)"}),
          random.among({"ps", "ring", "allgather", "hierarchical"}), static_cast<int>(random.below(4))};
}

Workload tensorsOf(Random& random, int worldSize) {
  Workload workload;
  workload.seed = random.seed();
  workload.worldSize = worldSize;
  workload.steps = kPlans * kStepsPerPlan;
  for (size_t index = 0; index < kTensors; ++index) {
    TensorSpec spec;
    spec.name = "tensor " + std::to_string(index);
    spec.count = random.oneIn(4) ? random.among<size_t>({0, 1, 1025}) : random.below(9000);
    spec.shape = "[" + std::to_string(spec.count) + "]";
    workload.specs.push_back(std::move(spec));
  }
  return workload;
}

/// The same tensors with other ways; about half of them in two groups.
std::vector<TensorSpec> randomPlan(Random& random, std::vector<TensorSpec> specs) {
  const std::vector<Way> ways = {randomWay(random), randomWay(random)};
  for (TensorSpec& spec : specs) {
    const size_t group = random.below(4);
    const Way way = group < ways.size() ? ways[group] : randomWay(random);
    auto& options = std::get<AllreduceOptions>(spec.options);
    if (group < ways.size()) options.group = "group " + std::to_string(group);
    options.codec = way.codec;
    options.topology = way.topology;
    options.partitions = way.partitions;
  }
  return specs;
}

/// A thread of a rank: synchronises its share of the tensors in one step.
void runShare(Engine& engine, const Workload& workload, const std::vector<TensorHandle>& handles, int step,
              std::vector<size_t> tensors, std::vector<Result>& results, Releases& releases, uint64_t seed) {
  Random random(seed);
  struct Pending {
    size_t tensor = 0;
    OperationHandle operation = 0;
    std::shared_ptr<StepMemory> memory;
  };
  std::vector<Pending> pending;
  random.shuffle(tensors);
  for (const size_t tensor : tensors) {
    pending.push_back({tensor, 0, memoryFor(workload, tensor, step, engine.rank())});
    pending.back().operation = engine.submit(handles[tensor], submissionOf(pending.back().memory, releases));
  }
  random.shuffle(pending);
  for (Pending& each : pending) {
    bool absent = false;
    while (!engine.wait(each.operation, Milliseconds(50), &absent)) continue;
    auto& bytes = each.memory->inPlace ? each.memory->input : each.memory->output;
    results[each.tensor] = {absent, std::move(bytes)};
  }
}

void runRank(Engine& engine, const Workload& workload, const std::vector<std::vector<TensorSpec>>& plans,
             Results& results, Releases& releases, uint64_t seed) {
  Random random(seed);
  std::vector<TensorHandle> handles;
  for (int step = 0; step < workload.steps; ++step) {
    const auto& plan = plans[static_cast<size_t>(step / kStepsPerPlan)];
    if (step == 0) {
      handles = engine.agree("plan 0", plan);
    } else if (step % kStepsPerPlan == 0) {
      auto agreed = engine.agreeAnew("plan " + std::to_string(step), handles, plan);
      for (size_t index = 0; index < agreed.size(); ++index) {
        handles[index] = agreed[index].handle;
        for (const float value : agreed[index].unsent) CHECK(std::isfinite(value), plan[index].name, value);
      }
    }
    std::vector<std::vector<size_t>> shares(1 + random.below(3));
    for (size_t tensor = 0; tensor < kTensors; ++tensor)
      shares[random.below(shares.size())].push_back(tensor);
    const uint64_t shareSeed = random.seed();
    inThreads(static_cast<int>(shares.size()), [&](int index) {
      runShare(engine, workload, handles, step, shares[static_cast<size_t>(index)],
               results[static_cast<size_t>(step)], releases, shareSeed + static_cast<uint64_t>(index));
    });
  }
}

void compare(const Workload& workload, const std::vector<std::vector<TensorSpec>>& plans,
             const std::vector<Results>& byRank) {
  for (size_t step = 0; step < byRank[0].size(); ++step) {
    const auto& plan = plans[step / kStepsPerPlan];
    for (size_t tensor = 0; tensor < kTensors; ++tensor) {
      const Result& first = byRank[0][step][tensor];
      for (size_t rank = 0; rank < byRank.size(); ++rank) {
        const Result& result = byRank[rank][step][tensor];
        CHECK(result.absent == first.absent, plan[tensor].describe(), plan[tensor].group(), step, rank);
        CHECK(result.absent || result.bytes == first.bytes, plan[tensor].describe(), plan[tensor].group(),
              step, rank);
      }
      std::vector<std::byte> expected;
      const bool present = expectedOf(workload, tensor, static_cast<int>(step), &expected);
      // A member without values on any rank counts as zeros if another member has values.
      CHECK(!present || !first.absent, plan[tensor].describe(), plan[tensor].group(), step);
      const bool exact = present && plan[tensor].allreduce()->codec == "none";
      CHECK(!exact || first.bytes == expected, plan[tensor].describe(), plan[tensor].group(), step);
    }
  }
}

}  // namespace

void stressPlans(Random& random) {
  World world = inprocWorld(random.among({2, 3, 4}), randomOptions(random));
  const Workload workload = tensorsOf(random, world.size());
  std::vector<std::vector<TensorSpec>> plans;
  for (int plan = 0; plan < kPlans; ++plan) plans.push_back(randomPlan(random, workload.specs));
  std::vector<Results> results(world.engines.size(),
                               Results(static_cast<size_t>(workload.steps), std::vector<Result>(kTensors)));
  Releases releases;
  const uint64_t seed = random.seed();
  inThreads(world.size(), [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    runRank(*world.engines[index], workload, plans, results[index], releases, seed + index);
  });
  compare(workload, plans, results);
  CHECK(releases.given == releases.returned, releases.given, releases.returned);
  shutDown(world);
}

}  // namespace hipress::stress
