// SPDX-License-Identifier: Apache-2.0
//
// Failures while every rank is busy with several threads. Every call must end, without an error or with an
// Error. Only the engine keeps the memory of a failed operation, so a sanitizer reports a late access.
#include "tests/core/stress/scenarios/failures.h"

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/transport/inproc.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/workload.h"

namespace hipress::stress {
namespace {

constexpr int kCallers = 2;
constexpr int kSteps = 1000;  // more than a round has time for

void pauseUpTo(Random& random, size_t microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(microseconds + 1)));
}

/// Waits in slices, as an adapter does, until the operation ends. Returns true if it ended well.
bool ends(Engine& engine, OperationHandle operation) {
  try {
    while (!engine.wait(operation, Milliseconds(20))) continue;
    return true;
  } catch (const Error& error) {
    CHECK(error.kind() != ErrorKind::kInvalidArgument, error.what());
    return false;
  }
}

/// One thread of a rank: synchronises its own tensors, step after step, until the first error.
void callUntilFailure(Engine& engine, const Workload& workload, int caller, Releases& releases,
                      Random random) {
  std::vector<OperationHandle> pending;
  try {
    std::vector<TensorSpec> specs;
    for (TensorSpec spec : workload.specs) {
      spec.name += "/" + std::to_string(caller);
      specs.push_back(std::move(spec));
    }
    const auto handles =
        random.oneIn(2) ? engine.declare(specs) : engine.agree(std::to_string(caller), specs);
    for (int step = 0; step < kSteps; ++step) {
      for (size_t tensor = 0; tensor < handles.size(); ++tensor) {
        const auto memory = memoryFor(workload, tensor, step, engine.rank());
        pending.push_back(engine.submit(handles[tensor], submissionOf(memory, releases)));
      }
      bool well = true;
      for (const auto operation : std::exchange(pending, {})) well &= ends(engine, operation);
      if (!well) return;
    }
  } catch (const Error& error) {
    CHECK(error.kind() != ErrorKind::kInvalidArgument, error.what());
  }
  for (const auto operation : pending) {
    // Some callers wait for the rest; others let go of the engine while operations are in flight.
    if (random.oneIn(2)) ends(engine, operation);
  }
}

/// A network that drops, corrupts, cuts or delays messages. All progress threads call it.
class BadNetwork {
 public:
  enum class Kind { kDrops, kCorrupts, kDelays };

  BadNetwork(Kind kind, size_t oneIn, uint64_t seed) : kind_(kind), oneIn_(oneIn), random_(seed) {}

  bool pass(InprocMessage& message) {
    std::unique_lock lock(mutex_);
    if (!random_.oneIn(oneIn_)) return true;
    switch (kind_) {
      case Kind::kDrops:
        return false;
      case Kind::kCorrupts:
        corrupt(message);
        return true;
      case Kind::kDelays: {
        const auto pause = std::chrono::microseconds(random_.below(3000));
        lock.unlock();
        std::this_thread::sleep_for(pause);
        return true;
      }
    }
    return true;
  }

 private:
  void corrupt(InprocMessage& message) {
    switch (random_.below(5)) {
      case 0:
        message.header[random_.below(message.header.size())] ^=
            static_cast<std::byte>(1 + random_.below(255));
        break;
      case 1:
        message.payload.resize(random_.below(message.payload.size() + 1));
        break;
      case 2:
        message.payload.resize(message.payload.size() + 1 + random_.below(5000));
        break;
      case 3:
        message.tag.partition = static_cast<uint16_t>(random_.below(10));
        break;
      default:
        if (message.payload.empty()) break;
        message.payload[random_.below(message.payload.size())] ^=
            static_cast<std::byte>(1 << random_.below(8));
    }
  }

  const Kind kind_;
  const size_t oneIn_;
  std::mutex mutex_;
  Random random_;
};

}  // namespace

void runUntilFailure(Random& random, World world, const std::function<void(World&)>& saboteur) {
  const Workload workload = randomWorkload(random, world.size(), 5);
  const uint64_t seed = random.seed();
  const int ranks = world.size();
  Releases releases;
  {
    std::vector<std::shared_ptr<Engine>> owners;  // one for each caller; the last one destroys the engine
    for (int caller = 0; caller < kCallers; ++caller) {
      owners.insert(owners.end(), world.engines.begin(), world.engines.end());
    }
    std::atomic<bool> sabotaged{false};
    inThreads(ranks * kCallers + 1, [&](int thread) {
      const auto index = static_cast<size_t>(thread);
      if (index == owners.size()) {
        saboteur(world);
        world.engines.clear();
        sabotaged = true;
        return;
      }
      const std::shared_ptr<Engine> engine = std::exchange(owners[index], nullptr);
      callUntilFailure(*engine, workload, thread / ranks, releases, Random(seed + index));
    });
    CHECK(sabotaged);
  }
  CHECK(releases.given == releases.returned, releases.given, releases.returned);
}

std::function<void(World&)> randomSaboteur(Random& random) {
  const uint64_t seed = random.seed();
  const size_t kind = random.below(4);
  return [seed, kind](World& world) {
    Random own(seed);
    pauseUpTo(own, 100000);
    const size_t victim = own.below(world.engines.size());
    const auto everyone = [&](const std::function<void(Engine&, Random&)>& body) {
      inThreads(2 * world.size(), [&](int thread) {
        Random each(seed + 1 + static_cast<uint64_t>(thread));
        pauseUpTo(each, 5000);
        body(*world.engines[static_cast<size_t>(thread % world.size())], each);
      });
    };
    switch (kind) {
      case 0:  // several threads of several ranks fail their engines at once
        return everyone([](Engine& engine, Random& each) {
          engine.fail(Error(ErrorKind::kTransport, "given up " + std::to_string(each.below(10))));
        });
      case 1:  // two threads shut each engine down while others fail it
        return everyone([](Engine& engine, Random& each) {
          if (each.oneIn(3)) engine.fail(Error(ErrorKind::kTransport, "given up"));
          engine.shutdown(Milliseconds(each.below(50)));
        });
      case 2:  // one rank leaves early, and the others find out
        return world.engines[victim]->shutdown(Milliseconds(0));
      default:  // for the other ranks, one process ends without a goodbye
        return world.engines[victim]->control().close();
    }
  };
}

void stressFailures(Random& random) {
  const int size = random.among({2, 3});
  EngineOptions options = randomOptions(random);
  options.timeout = Milliseconds(3000);
  if (random.oneIn(2)) {
    return runUntilFailure(random, inprocWorld(size, options), randomSaboteur(random));
  }
  using Kind = BadNetwork::Kind;
  const Kind kind = random.among({Kind::kDrops, Kind::kCorrupts, Kind::kDelays});
  if (kind == Kind::kDrops) options.timeout = Milliseconds(300);
  const auto network = std::make_shared<BadNetwork>(kind, random.among<size_t>({1, 10, 100}), random.seed());
  World world =
      inprocWorld(size, options, [network](InprocMessage& message) { return network->pass(message); });
  // A network that is only slow causes no failure, so a saboteur ends the round.
  const auto saboteur = kind == Kind::kDelays ? randomSaboteur(random) : [](World&) {};
  runUntilFailure(random, std::move(world), saboteur);
}

}  // namespace hipress::stress
