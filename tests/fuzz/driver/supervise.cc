// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/driver/supervise.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "tests/fuzz/driver/corpus.h"
#include "tests/fuzz/driver/coverage.h"
#include "tests/fuzz/driver/mutate.h"

namespace hipress::fuzz {
namespace {

constexpr unsigned kDeadlineSeconds = 20;

/// The input of the current run, in shared memory.
struct Running {
  bool now = false;
  size_t bytes = 0;
  uint8_t input[kMaxInputBytes] = {};
};

void runOne(Running& running, std::span<const uint8_t> input) {
  if (input.size() > kMaxInputBytes) throw std::runtime_error("an input of more bytes than kMaxInputBytes");
  running.bytes = input.size();
  if (!input.empty()) std::memcpy(running.input, input.data(), input.size());
  running.now = true;
  alarm(kDeadlineSeconds);
  startCoverage();
  runTarget(input);
  running.now = false;
}

const char* meaning(int status) {
  if (!WIFSIGNALED(status)) return "a sanitizer's report";
  return WTERMSIG(status) == SIGALRM ? "too slow" : strsignal(WTERMSIG(status));
}

}  // namespace

int supervise(const std::filesystem::path& directory, const std::function<void(const RunInput&)>& work) {
  void* memory = mmap(nullptr, sizeof(Running), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  auto& running = *new (memory) Running;
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    try {
      work([&running](std::span<const uint8_t> input) { runOne(running, input); });
    } catch (const std::exception& error) {
      std::fprintf(stderr, "exception: %s\n", error.what());
      std::abort();
    }
    alarm(0);
    std::exit(0);  // exit() also searches for leaks
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status == 0) return 0;
  if (!running.now) {
    std::fprintf(stderr, "failed: %s, but no input was running\n", meaning(status));
    return 1;
  }
  std::filesystem::create_directories(directory);
  const std::filesystem::path file = directory / "crash";
  writeInput(file, {running.input, running.bytes});
  std::fprintf(stderr, "failed: %s; the input is %s\n", meaning(status), file.c_str());
  return 1;
}

}  // namespace hipress::fuzz
