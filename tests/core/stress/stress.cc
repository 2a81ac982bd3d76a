// SPDX-License-Identifier: Apache-2.0
//
// Runs the core with many threads, mainly under the address, undefined-behaviour and thread sanitizers. Any
// error aborts with a message.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/time.h"
#include "tests/core/stress/scenarios/scenarios.h"
#include "tests/core/stress/world/check.h"
#include "tests/core/stress/world/watchdog.h"

namespace hipress::stress {
namespace {

using Seconds = std::chrono::duration<double>;

struct Scenario {
  const char* name;
  void (*round)(Random&);
};

constexpr Scenario kScenarios[] = {
    {"parts", stressParts},
    {"states", stressStates},
    {"slots", stressSlots},
    {"queues", stressQueues},
    {"memory", stressMemory},
    {"bundles", stressBundles},
    {"rounds", stressRounds},
    {"parallel", stressParallel},
    {"trace", stressTrace},
    {"agreement", stressAgreement},
    {"process-sets", stressProcessSets},
    {"joins", stressJoins},
    {"collectives", stressCollectives},
    {"plans", stressPlans},
    {"devices", stressDevices},
    {"failures", stressFailures},
    {"ucx", stressUcx},
    {"ucx-failures", stressUcxFailures},
};

/// A scenario that runs each of its cells once.
struct Sweep {
  const char* name;
  int (*cells)();
  void (*cell)(Random&, int number);
};

constexpr Sweep kSweeps[] = {
    {"grid", gridCells, runGridCell},
};

/// The longest time of a round: under a sanitizer on a busy machine even a short round may take it.
constexpr std::chrono::seconds kRoundLimit{120};
/// The longest time of a cell: eight ranks that exchange values with all others are slow.
constexpr std::chrono::seconds kCellLimit{900};

struct Options {
  double secondsPerScenario = 4.0;
  uint64_t seed = 1;
  std::string only;
  int cell = -1;  // the cell of a sweep; -1: all cells
};

[[noreturn]] void usage(const char* program) {
  std::fprintf(
      stderr,
      "usage: %s [--seconds-per-scenario=S] [--seed=N] [--only=SCENARIO [--cell=N]]\nscenarios:", program);
  for (const auto& scenario : kScenarios) std::fprintf(stderr, " %s", scenario.name);
  for (const auto& sweep : kSweeps) std::fprintf(stderr, " %s", sweep.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

Options parse(int count, char** arguments) {
  Options options;
  for (int index = 1; index < count; ++index) {
    const std::string argument = arguments[index];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    if (equals == std::string::npos) usage(arguments[0]);
    const std::string value = argument.substr(equals + 1);
    if (name == "--seconds-per-scenario") {
      options.secondsPerScenario = std::atof(value.c_str());
    } else if (name == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--cell") {
      options.cell = std::atoi(value.c_str());
    } else {
      usage(arguments[0]);
    }
  }
  return options;
}

/// Runs `body` with the seed; an error ends the program and tells how to repeat it.
template <typename Body>
void once(const std::string& name, uint64_t seed, std::chrono::seconds limit, const Body& body) {
  const std::string what = name + " (to repeat: --only=" + name + " --seed=" + std::to_string(seed) + ")";
  const Watchdog watchdog(what, limit);
  try {
    Random random(seed);
    body(random);
  } catch (const std::exception& error) {
    CHECK(false, what, error.what());
  }
}

void report(const char* name, int rounds, Clock::time_point start) {
  std::printf("%-13s %5d rounds, %5.1f s\n", name, rounds, Seconds(Clock::now() - start).count());
  std::fflush(stdout);
}

void repeat(const Scenario& scenario, const Options& options) {
  Random seeds(options.seed);
  const auto start = Clock::now();
  int rounds = 0;
  do {
    const uint64_t seed = rounds == 0 ? options.seed : seeds.seed();
    once(scenario.name, seed, kRoundLimit, scenario.round);
    ++rounds;
  } while (Seconds(Clock::now() - start).count() < options.secondsPerScenario);
  report(scenario.name, rounds, start);
}

void sweep(const Sweep& all, const Options& options) {
  const auto start = Clock::now();
  int rounds = 0;
  for (int cell = 0; cell < all.cells(); ++cell) {
    if (options.cell >= 0 && options.cell != cell) continue;
    once(std::string(all.name) + " --cell=" + std::to_string(cell), options.seed, kCellLimit,
         [&](Random& random) { all.cell(random, cell); });
    ++rounds;
  }
  report(all.name, rounds, start);
}

}  // namespace
}  // namespace hipress::stress

int main(int count, char** arguments) {
  using namespace hipress::stress;
  const Options options = parse(count, arguments);
  bool found = false;
  for (const auto& scenario : kScenarios) {
    if (!options.only.empty() && options.only != scenario.name) continue;
    found = true;
    repeat(scenario, options);
  }
  for (const auto& each : kSweeps) {
    if (!options.only.empty() && options.only != each.name) continue;
    found = true;
    sweep(each, options);
  }
  if (!found) usage(arguments[0]);
  return 0;
}
