// SPDX-License-Identifier: Apache-2.0
//
// ComputeQueue as Parallel: each body runs once, for every caller, and run() ends whatever the lanes do.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/casync/compute/compute_queue.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {
namespace {

/// Counts without atomics: the caller must see the bodies' writes without further synchronisation.
void runOnce(Parallel& parallel, size_t count) {
  std::vector<int> calls(count, 0);
  parallel.run(count, [&](size_t index) { ++calls[index]; });
  for (size_t index = 0; index < count; ++index) CHECK(calls[index] == 1, index, count, calls[index]);
}

void everyBodyRunsOnceForCallersOfAllKinds(Random& random) {
  ComputeQueue queue(static_cast<int>(1 + random.below(4)), mustNotThrow);
  constexpr int kCallers = 3;
  constexpr int kEach = 100;
  std::atomic<int> remaining{kCallers * kEach};
  const uint64_t seed = random.seed();
  inThreads(kCallers, [&](int caller) {
    Random own(seed + static_cast<uint64_t>(caller));
    for (int turn = 0; turn < kEach; ++turn) {
      const size_t count = own.below(own.oneIn(10) ? 2000 : 9);
      if (own.oneIn(2)) {
        runOnce(queue, count);
        --remaining;
        continue;
      }
      queue.push(static_cast<int>(own.below(5)), [&, count](int) {
        runOnce(queue, count);
        --remaining;
      });
    }
  });
  while (remaining > 0) std::this_thread::yield();
}

/// All lanes are in their own run(), or are blocked: no lane helps, and no caller waits for help.
void busyLanesAreNotWaitedFor() {
  ComputeQueue queue(2, mustNotThrow);
  std::atomic<bool> blocked{true};
  std::atomic<int> stuck{0};
  for (int lane = 0; lane < 2; ++lane) {
    queue.push(0, [&](int) {
      ++stuck;
      while (blocked) std::this_thread::yield();
      runOnce(queue, 100);
      --stuck;
    });
  }
  while (stuck < 2) std::this_thread::yield();
  runOnce(queue, 100);
  blocked = false;
  while (stuck > 0) std::this_thread::yield();
}

void bodiesMayRunBodies(Random& random) {
  ComputeQueue queue(static_cast<int>(1 + random.below(3)), mustNotThrow);
  std::vector<std::vector<int>> calls(20, std::vector<int>(20, 0));
  queue.run(calls.size(), [&](size_t outer) {
    queue.run(calls[outer].size(), [&](size_t inner) { ++calls[outer][inner]; });
  });
  for (const auto& row : calls) {
    for (const int count : row) CHECK(count == 1, count);
  }
}

/// An idle lane helps: here no body can go on without all other threads.
void idleLanesHelp() {
  constexpr size_t kThreads = 3;
  ComputeQueue queue(kThreads - 1, mustNotThrow);
  for (int turn = 0; turn < 3; ++turn) {
    std::atomic<size_t> together{0};
    // A lane may not be idle yet when it has just begun or ended a task.
    std::atomic<bool> met{false};
    while (!met) {
      together = 0;
      std::atomic<int> patience{1000};
      queue.run(kThreads, [&](size_t) {
        ++together;
        while (together < kThreads && --patience > 0) std::this_thread::yield();
      });
      met = patience > 0;
    }
  }
}

void whatABodyThrowsReachesTheCaller(Random& random) {
  ComputeQueue queue(static_cast<int>(1 + random.below(3)), mustNotThrow);
  const size_t bad = random.below(30);
  std::vector<int> calls(30, 0);
  bool thrown = false;
  try {
    queue.run(calls.size(), [&](size_t index) {
      ++calls[index];
      if (index == bad) throw std::runtime_error("body");
    });
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  CHECK(thrown, thrown);
  for (const int count : calls) CHECK(count == 1, count);
}

void stopsWhileBodiesRun(Random& random) {
  const auto held = std::make_shared<int>(0);
  {
    ComputeQueue queue(static_cast<int>(1 + random.below(3)), mustNotThrow);
    inThreads(3, [&](int thread) {
      for (int turn = 0; turn < 50; ++turn) {
        if (thread == 0 && turn == 20) queue.stop();
        std::vector<int> calls(30, 0);
        queue.run(calls.size(), [&calls, held](size_t index) { ++calls[index]; });
        for (const int count : calls) CHECK(count == 1, count);
      }
    });
  }
  CHECK(held.use_count() == 1, held.use_count());
}

}  // namespace

void stressParallel(Random& random) {
  everyBodyRunsOnceForCallersOfAllKinds(random);
  busyLanesAreNotWaitedFor();
  bodiesMayRunBodies(random);
  idleLanesHelp();
  whatABodyThrowsReachesTheCaller(random);
  stopsWhileBodiesRun(random);
}

}  // namespace hipress::stress
