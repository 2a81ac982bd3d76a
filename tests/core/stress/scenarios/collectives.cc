// SPDX-License-Identifier: Apache-2.0
//
// Many tensors at once: every rank submits them in its own order, from several threads, and waits in another
// order. All ranks must get the same bytes, and with codec `none` the exact bytes.
#include "tests/core/stress/scenarios/collectives.h"

#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"

namespace hipress::stress {
namespace {

struct Result {
  bool absent = false;
  std::vector<std::byte> bytes;
};
/// Results by tensor and step.
using Results = std::vector<std::vector<Result>>;

struct Pending {
  size_t tensor = 0;
  OperationHandle operation = 0;
  std::shared_ptr<StepMemory> memory;
  std::future<bool> told;  // valid if the engine calls a function at the end
};

/// A thread that uses a rank's engine: it synchronises its share of the tensors, step by step.
class Caller {
 public:
  Caller(Engine& engine, const Workload& workload, const std::vector<TensorHandle>& handles, Results& results,
         Releases& releases, uint64_t seed, bool alone)
      : engine_(engine),
        workload_(workload),
        handles_(handles),
        results_(results),
        releases_(releases),
        random_(seed),
        alone_(alone) {}

  void run(std::vector<size_t> tensors) {
    for (int step = 0; step < workload_.steps; ++step) {
      if (!workload_.inOrder) random_.shuffle(tensors);
      std::vector<Pending> pending;
      for (const size_t tensor : tensors) {
        pending.push_back({tensor, 0, memoryFor(workload_, tensor, step, engine_.rank()), {}});
        Pending& last = pending.back();
        Submission submission = submissionOf(last.memory, releases_);
        if (random_.oneIn(3)) last.told = toldBy(submission);
        last.operation = engine_.submit(handles_[tensor], std::move(submission));
        if (random_.oneIn(3)) take(pending, step);
      }
      random_.shuffle(pending);
      while (!pending.empty()) take(pending, step);
      // Steps of several callers overlap, and end when a tensor comes again.
      if (alone_ && !tensors.empty()) engine_.endStep(handles_[tensors.front()]);
    }
  }

 private:
  /// The answer that the engine gives at the end: whether no rank had values.
  static std::future<bool> toldBy(Submission& submission) {
    const auto told = std::make_shared<std::promise<bool>>();
    submission.onDone = [told](const Failure& failure, bool absent) {
      if (failure) return told->set_exception(std::make_exception_ptr(*failure));
      told->set_value(absent);
    };
    return told->get_future();
  }

  /// Waits for one of the operations; if it is not ready, a later call takes it.
  void take(std::vector<Pending>& pending, int step) {
    const size_t chosen = random_.below(pending.size());
    Pending& each = pending[chosen];
    const Milliseconds slice(random_.oneIn(2) ? 0 : 50);
    bool absent = false;
    if (each.told.valid()) {
      if (each.told.wait_for(slice) != std::future_status::ready) return;
      absent = each.told.get();
    } else {
      if (random_.oneIn(4) && !engine_.poll(each.operation)) return;
      if (!engine_.wait(each.operation, slice, &absent)) return;
    }
    // The engine releases the memory before it reports the end, so only this thread holds it now.
    CHECK(each.memory.use_count() == 1, each.memory.use_count());
    auto& bytes = each.memory->inPlace ? each.memory->input : each.memory->output;
    results_[each.tensor][static_cast<size_t>(step)] = {absent, std::move(bytes)};
    pending.erase(pending.begin() + static_cast<ptrdiff_t>(chosen));
  }

  Engine& engine_;
  const Workload& workload_;
  const std::vector<TensorHandle>& handles_;
  Results& results_;
  Releases& releases_;
  Random random_;
  const bool alone_;  // no other caller has tensors of this engine
};

void runRank(Engine& engine, const Workload& workload, Results& results, Releases& releases, uint64_t seed) {
  Random random(seed);
  std::vector<size_t> order;
  for (size_t tensor = 0; tensor < workload.specs.size(); ++tensor) order.push_back(tensor);
  if (!workload.inOrder) random.shuffle(order);
  std::vector<TensorHandle> handles(order.size());
  for (const size_t tensor : order) {
    TensorSpec spec = workload.specs[tensor];
    spec.priority = static_cast<int>(random.below(5));  // the ranks' priorities may differ
    handles[tensor] = engine.declare({std::move(spec)}).front();
  }
  if (workload.bySteps) engine.settleBySteps(handles);
  const auto callers = workload.inOrder ? 1 : static_cast<int>(1 + random.below(3));
  std::vector<std::vector<size_t>> shares(static_cast<size_t>(callers));
  for (const size_t tensor : order) shares[random.below(shares.size())].push_back(tensor);
  const uint64_t callerSeed = random.seed();
  inThreads(callers, [&](int index) {
    Caller caller(engine, workload, handles, results, releases, callerSeed + static_cast<uint64_t>(index),
                  callers == 1);
    caller.run(shares[static_cast<size_t>(index)]);
  });
}

/// Whether the sum is exact: travelling partial sums are rounded to the tensor's type.
bool isExact(const TensorSpec& spec) {
  const AllreduceOptions* options = spec.allreduce();
  if (options == nullptr) return true;
  const bool isHopped = options->topology != "ps" && options->topology != "allgather";
  return options->codec == "none" &&
         !(isHopped && isFloatingPoint(spec.dtype) && elementSize(spec.dtype) < 4);
}

void compare(const Workload& workload, const std::vector<Results>& byRank) {
  for (size_t tensor = 0; tensor < workload.specs.size(); ++tensor) {
    const TensorSpec& spec = workload.specs[tensor];
    for (int step = 0; step < workload.steps; ++step) {
      std::vector<std::byte> expected;
      const bool present = expectedOf(workload, tensor, step, &expected);
      const bool exact = isExact(spec);
      const Result& first = byRank[0][tensor][static_cast<size_t>(step)];
      for (size_t rank = 0; rank < byRank.size(); ++rank) {
        const Result& result = byRank[rank][tensor][static_cast<size_t>(step)];
        CHECK(result.absent == !present, spec.name, spec.describe(), step, rank);
        if (!present) continue;
        CHECK(result.bytes == first.bytes, spec.name, spec.describe(), step, rank);
        CHECK(!exact || result.bytes == expected, spec.name, spec.describe(), step, rank);
      }
    }
  }
}

void checkStates(Engine& engine) {
  for (const auto& entry : engine.states().entries()) {
    for (const float value : engine.states().copy(entry.tensor, entry.role, entry.state.name)) {
      CHECK(std::isfinite(value), entry.tensor, entry.state.name, value);
    }
  }
}

}  // namespace

void runCollectives(Random& random, World& world, const Workload& workload) {
  std::vector<Results> results(world.engines.size());
  for (auto& each : results) {
    each.resize(workload.specs.size());
    for (auto& steps : each) steps.resize(static_cast<size_t>(workload.steps));
  }
  Releases releases;
  const uint64_t seed = random.seed();
  inThreads(world.size(), [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    runRank(*world.engines[index], workload, results[index], releases, seed + index);
  });
  compare(workload, results);
  for (const auto& engine : world.engines) checkStates(*engine);
  CHECK(releases.given == releases.returned, releases.given, releases.returned);
  shutDown(world);
}

void stressCollectives(Random& random) {
  const int size = random.among({2, 3, 5});
  EngineOptions options = randomOptions(random);
  if (random.oneIn(3)) options.trace = std::make_shared<TraceRecorder>(0, 1000);
  World world = inprocWorld(size, options);
  runCollectives(random, world, randomWorkload(random, size, 16));
}

}  // namespace hipress::stress
