// SPDX-License-Identifier: Apache-2.0
//
// The core under threads: made to be run with the address, undefined-behaviour and thread sanitizers, useful
// without. Whatever is wrong aborts with a message.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/core/stress/check.h"
#include "tests/core/stress/scenarios.h"
#include "tests/core/stress/watchdog.h"

namespace hipress::stress {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Scenario {
  const char* name;
  void (*round)(Random&);
};

constexpr Scenario kScenarios[] = {
    {"parts", stressParts},
    {"states", stressStates},
    {"queues", stressQueues},
    {"bundles", stressBundles},
    {"parallel", stressParallel},
    {"trace", stressTrace},
    {"agreement", stressAgreement},
    {"collectives", stressCollectives},
    {"failures", stressFailures},
    {"ucx", stressUcx},
    {"ucx-failures", stressUcxFailures},
};

/// A round is short; under a sanitizer, on a machine with other work, it may take this long.
constexpr std::chrono::seconds kRoundLimit{120};

struct Options {
  double secondsPerScenario = 4.0;
  uint64_t seed = 1;
  std::string only;
};

[[noreturn]] void usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s [--seconds-per-scenario=S] [--seed=N] [--only=SCENARIO]\nscenarios:", program);
  for (const auto& scenario : kScenarios) std::fprintf(stderr, " %s", scenario.name);
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
    } else {
      usage(arguments[0]);
    }
  }
  return options;
}

void repeat(const Scenario& scenario, const Options& options) {
  Random seeds(options.seed);
  const auto start = Clock::now();
  int rounds = 0;
  do {
    const uint64_t seed = rounds == 0 ? options.seed : seeds.seed();
    const std::string what = std::string(scenario.name) + " (to repeat: --only=" + scenario.name +
                             " --seed=" + std::to_string(seed) + ")";
    const Watchdog watchdog(what, kRoundLimit);
    try {
      Random random(seed);
      scenario.round(random);
    } catch (const std::exception& error) {
      CHECK(false, what, error.what());
    }
    ++rounds;
  } while (Seconds(Clock::now() - start).count() < options.secondsPerScenario);
  std::printf("%-13s %5d rounds, %5.1f s\n", scenario.name, rounds, Seconds(Clock::now() - start).count());
  std::fflush(stdout);
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
  if (!found) usage(arguments[0]);
  return 0;
}
