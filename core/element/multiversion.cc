// SPDX-License-Identifier: Apache-2.0
#include "core/element/multiversion.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace hipress {
namespace {

IsaLevel detect() {
#if HIPRESS_X86
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                  __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
                  __builtin_cpu_supports("movbe") && __builtin_cpu_supports("popcnt");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return IsaLevel::kAvx512;
  if (v3) return IsaLevel::kAvx2;
#endif
  return IsaLevel::kPortable;
}

void requireAvailable(IsaLevel level) {
  if (level > bestIsaLevel()) {
    throw invalidArgument("instruction-set level '" + std::string(isaLevelName(level)) +
                          "' was asked for, but the best this processor has is '" +
                          std::string(isaLevelName(bestIsaLevel())) + "'");
  }
}

IsaLevel initialLevel() {
  const char* wanted = std::getenv("HIPRESS_ISA");
  if (wanted == nullptr || *wanted == '\0') return bestIsaLevel();
  const IsaLevel level = isaLevelFromName(wanted);
  requireAvailable(level);
  return level;
}

std::atomic<IsaLevel>& current() {
  static std::atomic<IsaLevel> level{initialLevel()};
  return level;
}

}  // namespace

IsaLevel bestIsaLevel() {
  static const IsaLevel best = detect();
  return best;
}

IsaLevel isaLevel() {
  return current().load(std::memory_order_relaxed);
}

void setIsaLevel(IsaLevel level) {
  requireAvailable(level);
  current().store(level, std::memory_order_relaxed);
}

std::string_view isaLevelName(IsaLevel level) {
  switch (level) {
    case IsaLevel::kPortable:
      return "portable";
    case IsaLevel::kAvx2:
      return "avx2";
    case IsaLevel::kAvx512:
      return "avx512";
  }
  return "unknown";
}

IsaLevel isaLevelFromName(std::string_view name) {
  for (const IsaLevel level : {IsaLevel::kPortable, IsaLevel::kAvx2, IsaLevel::kAvx512}) {
    if (name == isaLevelName(level)) return level;
  }
  throw invalidArgument("instruction-set level '" + std::string(name) +
                        "' does not exist; the levels are portable, avx2, avx512 (HIPRESS_ISA)");
}

}  // namespace hipress
