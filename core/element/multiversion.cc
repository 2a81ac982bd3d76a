// SPDX-License-Identifier: Apache-2.0
#include "core/element/multiversion.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "core/base/error.h"

namespace hipress {
namespace {

IsaLevel detect() {
#if HIPRESS_X86
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("sse3") && __builtin_cpu_supports("ssse3") &&
                  __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("sse4.2") &&
                  __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("avx2") &&
                  __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") &&
                  __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  if (v4) return IsaLevel::kV4;
  if (v3) return IsaLevel::kV3;
#endif
  return IsaLevel::kGeneric;
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

void detail::refuseLevel(IsaLevel compiled, IsaLevel current) {
  throw invalidArgument("this codec was compiled for instruction-set level '" +
                        std::string(isaLevelName(compiled)) + "' alone, and the level is now '" +
                        std::string(isaLevelName(current)) +
                        "': set HIPRESS_ISA before the process starts and loads the codec");
}

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
    case IsaLevel::kGeneric:
      return "generic";
    case IsaLevel::kV3:
      return "x86-64-v3";
    case IsaLevel::kV4:
      return "x86-64-v4";
  }
  return "unknown";
}

IsaLevel isaLevelFromName(std::string_view name) {
  for (const IsaLevel level : {IsaLevel::kGeneric, IsaLevel::kV3, IsaLevel::kV4}) {
    if (name == isaLevelName(level)) return level;
  }
  throw invalidArgument("instruction-set level '" + std::string(name) +
                        "' does not exist; the levels are generic, x86-64-v3, x86-64-v4 (HIPRESS_ISA)");
}

}  // namespace hipress
