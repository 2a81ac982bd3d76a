// SPDX-License-Identifier: Apache-2.0
//
// A coverage-guided fuzzer for GCC, which can instrument code but has no libFuzzer.
//
//   fuzz_decoders --runs=100000 --seeds=tests/fuzz/seeds/decoders --crashes=/tmp/crashes
//   fuzz_decoders /tmp/crashes/crash            # repeats this input alone
//
// With --runs, equal seeds (--seed) and equal inputs give the same runs.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

#include "tests/fuzz/driver/comparisons.h"
#include "tests/fuzz/driver/corpus.h"
#include "tests/fuzz/driver/coverage.h"
#include "tests/fuzz/driver/mutate.h"
#include "tests/fuzz/driver/supervise.h"

namespace hipress::fuzz {
namespace {

constexpr char kUsage[] =
    "usage: fuzz [--runs=N] [--seconds=S] [--seed=K] [--seeds=DIRECTORY] [--corpus=DIRECTORY]\n"
    "            [--crashes=DIRECTORY] [--write-seeds=DIRECTORY] [--guided=0] [FILE...]\n"
    "Ends after N runs or S seconds; with files, runs only those. New inputs go to the corpus.\n";

constexpr size_t kRunsOfOneInput = 32;

struct Settings {
  std::map<std::string, std::string> options{{"runs", ""},    {"seconds", ""},    {"seed", "1"},
                                             {"seeds", ""},   {"corpus", ""},     {"crashes", "."},
                                             {"guided", "1"}, {"write-seeds", ""}};
  std::vector<std::string> files;

  const std::string& text(const std::string& name) const { return options.at(name); }
  uint64_t number(const std::string& name, uint64_t otherwise) const {
    return text(name).empty() ? otherwise : std::stoull(text(name));
  }
};

Settings parse(std::span<char*> arguments) {
  Settings settings;
  for (const std::string argument : arguments) {
    if (!argument.starts_with("--")) {
      settings.files.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const auto option = settings.options.find(argument.substr(2, equals - 2));
    if (equals == std::string::npos || option == settings.options.end()) {
      throw std::runtime_error(argument + "?\n" + kUsage);
    }
    option->second = argument.substr(equals + 1);
  }
  if (settings.files.empty() && settings.text("runs").empty() && settings.text("seconds").empty() &&
      settings.text("write-seeds").empty()) {
    throw std::runtime_error(kUsage);
  }
  return settings;
}

void writeSeeds(const std::filesystem::path& directory) {
  std::filesystem::create_directories(directory);
  for (const Seed& seed : targetSeeds()) writeInput(directory / seed.name, seed.input);
}

std::vector<Seed> seeds(const Settings& settings) {
  std::vector<Seed> inputs = targetSeeds();
  if (!settings.text("seeds").empty()) {
    for (Seed& seed : readInputs(settings.text("seeds"))) inputs.push_back(std::move(seed));
  }
  if (inputs.empty()) inputs.push_back({"empty", {}});
  return inputs;
}

void fuzz(const Settings& settings, const RunInput& run) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const std::string& directory = settings.text("corpus");
  Corpus corpus(directory.empty() ? std::nullopt : std::optional<std::filesystem::path>(directory));
  for (const Seed& seed : seeds(settings)) {
    run(seed.input);
    // The corpus keeps the first seed in any case, because it needs an input to change.
    if (takeNewCoverage() != 0 || corpus.size() == 0) corpus.add(seed.input);
  }
  corpus.markSeeds();
  if (!directory.empty()) {
    for (const Seed& found : readInputs(directory)) {
      run(found.input);
      if (takeNewCoverage() != 0) corpus.add(found.input);
    }
  }
  // guided=0 is for comparison: the corpus keeps no new input, and the driver forgets comparisons.
  const bool guided = settings.number("guided", 1) != 0;
  const uint64_t limit = settings.number("runs", UINT64_MAX);
  const auto deadline = static_cast<double>(settings.number("seconds", 1'000'000'000));
  stress::Random random(settings.number("seed", 1));
  uint64_t runs = 0;
  Input base;
  Input input;
  while (runs < limit && seconds() < deadline) {
    base = corpus.choose(random);
    startComparisons();
    if (guided) run(base);  // records the comparisons of the unchanged input
    input = base;
    for (size_t i = 0; i < kRunsOfOneInput && runs < limit; ++i, ++runs) {
      if (!random.oneIn(4)) input = base;
      mutate(input, corpus.choose(random), random);
      run(input);
      if (takeNewCoverage() != 0 && guided) corpus.add(input);
      if (!guided) startComparisons();
    }
  }
  const double took = seconds();
  std::printf("%llu runs in %.1f s, %zu pairs of blocks, %zu inputs in the corpus\n",
              static_cast<unsigned long long>(runs), took, pairsCovered(), corpus.size());
}

int main(const Settings& settings) {
  if (!settings.text("write-seeds").empty()) {
    writeSeeds(settings.text("write-seeds"));
    return 0;
  }
  return supervise(settings.text("crashes"), [&settings](const RunInput& run) {
    for (const std::string& file : settings.files) run(readInput(file));
    if (settings.files.empty()) fuzz(settings, run);
  });
}

}  // namespace
}  // namespace hipress::fuzz

int main(int count, char** arguments) {
  try {
    return hipress::fuzz::main(hipress::fuzz::parse(std::span(arguments + 1, arguments + count)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
