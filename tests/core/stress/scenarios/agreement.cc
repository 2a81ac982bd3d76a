// SPDX-License-Identifier: Apache-2.0
//
// Ranks and their threads agree on tensors in any order, declare tensors for one use, and disagree.
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/workload.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

constexpr int kThreads = 3;

TensorSpec specOf(const std::string& name, uint64_t count) {
  TensorSpec spec;
  spec.name = name;
  spec.count = count;
  spec.shape = "[" + std::to_string(count) + "]";
  return spec;
}

/// Synchronises the rank numbers once and checks the sum.
void synchronise(Engine& engine, TensorHandle tensor, size_t count) {
  const auto memory = std::make_shared<std::vector<float>>(count, static_cast<float>(engine.rank()));
  Submission submission;
  submission.input = memory->data();
  submission.output = memory->data();
  submission.keepAlive = memory;  // if ranks disagree, messages may come after the error
  const auto operation = engine.submit(tensor, std::move(submission));
  while (!engine.wait(operation, Milliseconds(100))) continue;
  const float sum = static_cast<float>(engine.worldSize() * (engine.worldSize() - 1)) / 2;
  const float average = sum * static_cast<float>(1.0 / engine.worldSize());
  for (const float value : *memory) CHECK(value == average, value, average);
}

/// All threads of all ranks declare the same names, each in its own order: every name must get one number.
void sameNumbersEverywhere(Random& random, World& world) {
  std::mutex mutex;
  std::map<std::string, TensorHandle> agreed;
  const uint64_t seed = random.seed();
  inThreads(world.size() * kThreads, [&](int thread) {
    Engine& engine = *world.engines[static_cast<size_t>(thread / kThreads)];
    Random own(seed + static_cast<uint64_t>(thread));
    std::vector<int> names(20);
    for (size_t index = 0; index < names.size(); ++index) names[index] = static_cast<int>(index);
    own.shuffle(names);
    for (const int number : names) {
      const std::string name = "kept " + std::to_string(number);
      const TensorHandle handle = engine.declare({specOf(name, 10)}).front();
      CHECK(engine.tensor(handle)->spec().name == name);
      const std::lock_guard lock(mutex);
      const auto [entry, isNew] = agreed.emplace(name, handle);
      CHECK(entry->second == handle, name, entry->second, handle);
    }
  });
}

/// Several threads agree on lists at once, and announce tensors for one use with repeated names.
void listsAndTransients(Random& random, World& world) {
  const size_t count = 1 + random.below(5000);
  inThreads(world.size() * kThreads, [&](int thread) {
    Engine& engine = *world.engines[static_cast<size_t>(thread / kThreads)];
    const std::string own = std::to_string(thread % kThreads);
    const auto handles = engine.agree("list " + own, {specOf("x" + own, count), specOf("y" + own, 3)});
    synchronise(engine, handles[0], count);
    for (size_t turn = 0; turn < 8; ++turn) {
      TensorSpec spec = specOf("once " + own, 1 + (turn * 700) % 3000);
      spec.transient = true;
      // Rank 0's answer comes before or after the submission.
      synchronise(engine, turn % 2 == 0 ? engine.announce(spec) : engine.declare({spec}).front(), spec.count);
    }
  });
}

template <typename Body>
void expectMismatch(const char* what, const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  try {
    body();
    CHECK(false, what, "went through");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kMismatch, what, error.what());
  }
  const auto took = std::chrono::steady_clock::now() - start;
  CHECK(took < std::chrono::seconds(30), what, "was only found at its deadline");
}

/// One rank declares another count: all ranks get the error before the deadline, and the engine goes on.
void disagreement(Random& random, World& world) {
  const auto odd = static_cast<int>(random.below(static_cast<size_t>(world.size())));
  constexpr int kTensors = 6;
  inThreads(world.size() * kThreads, [&](int thread) {
    Engine& engine = *world.engines[static_cast<size_t>(thread / kThreads)];
    for (int number = 0; number < kTensors; ++number) {
      const std::string name = "torn " + std::to_string(number) + "/" + std::to_string(thread % kThreads);
      const uint64_t count = engine.rank() == odd ? 11 : 10;
      expectMismatch("a tensor",
                     [&] { synchronise(engine, engine.declare({specOf(name, count)}).front(), count); });
    }
    const std::string list = "torn list " + std::to_string(thread % kThreads);
    expectMismatch("a list", [&] { engine.agree(list, {specOf(list, engine.rank() == odd ? 5 : 6)}); });
    synchronise(engine, engine.declare({specOf("whole " + list, 100)}).front(), 100);
  });
}

/// A refused submission must not prevent a later use of the tensor.
void refusals(World& world) {
  inThreads(world.size(), [&](int rank) {
    Engine& engine = *world.engines[static_cast<size_t>(rank)];
    TensorSpec spec = specOf("biased", 5000);
    std::get<AllreduceOptions>(spec.options).codec = "onebit";
    spec.transient = true;
    const auto start = [&engine](TensorHandle tensor, std::vector<float>& values) {
      Submission submission;
      submission.input = values.data();
      submission.output = values.data();
      return engine.submit(tensor, std::move(submission));
    };
    const auto refused = [&](ErrorKind kind, TensorHandle tensor, std::vector<float>& values) {
      try {
        start(tensor, values);
        CHECK(false, "it was taken");
      } catch (const Error& error) {
        CHECK(error.kind() == kind, error.what());
      }
    };
    std::vector<float> first(5000, 1.0f);
    std::vector<float> second(5000, 1.0f);
    const TensorHandle one = engine.declare({spec}).front();
    const TensorHandle two = engine.declare({spec}).front();
    const auto everyone = [&engine] { engine.control().allgather("tried", "", Milliseconds(60000)); };
    if (rank == 0) everyone();  // the other ranks' first operation runs until rank 0 takes part
    const auto operation = start(one, first);
    if (rank != 0) {
      refused(ErrorKind::kDuplicateName, two, second);
      everyone();
    }
    while (!engine.wait(operation, Milliseconds(100))) continue;
    const auto again = start(two, second);
    while (!engine.wait(again, Milliseconds(100))) continue;

    spec.count = 6000;  // the tensor's state has 5000 elements
    std::vector<float> larger(6000, 1.0f);
    const TensorHandle grown = engine.declare({spec}).front();
    refused(ErrorKind::kMismatch, grown, larger);
    engine.states().erase("biased");
    const auto last = start(grown, larger);
    while (!engine.wait(last, Milliseconds(100))) continue;
  });
}

}  // namespace

void stressAgreement(Random& random) {
  World world = inprocWorld(random.among({2, 3, 5}), randomOptions(random));
  sameNumbersEverywhere(random, world);
  listsAndTransients(random, world);
  disagreement(random, world);
  refusals(world);
  shutDown(world);
}

}  // namespace hipress::stress
