// SPDX-License-Identifier: Apache-2.0
//
// Operations among overlapping sets of ranks, which every rank starts in another order.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

constexpr const char* kTopologies[] = {"ps", "ring", "butterfly", "allgather"};
constexpr const char* kCodecs[] = {"none", "onebit", "int8"};

/// One operation that all ranks of a set start once.
struct Call {
  ProcessSet among;
  TensorSpec spec;
};

/// Some of the ranks; at times all of them, as a list or as the empty one.
ProcessSet randomSet(Random& random, int size) {
  if (random.oneIn(6)) return {};
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  random.shuffle(ranks);
  ranks.resize(1 + random.below(ranks.size()));
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

Call randomCall(Random& random, int size, size_t number) {
  Call call;
  call.among = randomSet(random, size);
  call.spec.name = "call " + std::to_string(number);
  call.spec.count = 1 + random.below(3000);
  call.spec.shape = "[" + std::to_string(call.spec.count) + "]";
  call.spec.transient = true;
  call.spec.among = call.among;
  AllreduceOptions how;
  how.codec = kCodecs[random.below(std::size(kCodecs))];
  how.topology = kTopologies[random.below(std::size(kTopologies))];
  call.spec.options = how;
  return call;
}

struct Waiting {
  OperationHandle operation;
  std::shared_ptr<std::vector<float>> values;
};

Waiting start(Engine& engine, const Call& call, bool early) {
  // Equal values, so that every codec keeps them.
  auto values = std::make_shared<std::vector<float>>(call.spec.count, 2.0f);
  Submission submission;
  submission.input = values->data();
  submission.output = values->data();
  submission.keepAlive = values;
  const TensorHandle tensor = early ? engine.announce(call.spec) : engine.declare({call.spec}).front();
  return {engine.submit(tensor, std::move(submission)), std::move(values)};
}

}  // namespace

void stressProcessSets(Random& random) {
  EngineOptions options = randomOptions(random);
  options.pipelining = true;  // without it all ranks start operations in one order
  World world = inprocWorld(random.among({2, 3, 5}), options);
  std::vector<Call> calls;
  for (size_t number = 0; number < 60; ++number) calls.push_back(randomCall(random, world.size(), number));
  const uint64_t seed = random.seed();
  inThreads(world.size(), [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    Random own(seed + static_cast<uint64_t>(rank));
    std::vector<const Call*> mine;
    for (const Call& call : calls) {
      if (positionOf(call.among, rank) >= 0) mine.push_back(&call);
    }
    own.shuffle(mine);
    std::vector<Waiting> waiting;
    for (const Call* call : mine) waiting.push_back(start(engine, *call, own.oneIn(2)));
    for (const Waiting& each : waiting) {
      while (!engine.wait(each.operation, Milliseconds(100))) continue;
      for (const float value : *each.values) CHECK(value > 1.98f && value < 2.02f, value);
    }
    // Each set compares lists alone.
    for (const Call& call : calls) {
      if (positionOf(call.among, rank) < 0 || call.spec.count % 7 != 0) continue;
      TensorSpec kept = call.spec;
      kept.name = "kept " + call.spec.name;
      kept.transient = false;
      engine.agree("list of " + call.spec.name, {kept});
    }
  });
  shutDown(world);
}

}  // namespace hipress::stress
