// SPDX-License-Identifier: Apache-2.0
//
// Compiles one kernel for each instruction-set level and chooses one at run time. GCC's target_clones would
// not do: its ifuncs run before sanitizers have started, and tests could not force a level to compare the
// levels. Results must not depend on the level: core/ is compiled with -ffp-contract=off, and kernels fix the
// order of their sums.
//
//   template <IsaLevel level>
//   struct Twice {
//     static void run(const float* in, float* out, size_t count) { for (...) out[i] = 2 * in[i]; }
//   };
//   multiversion<Twice>(in, out, count);
#pragma once

#include <cstdint>
#include <string_view>

namespace hipress {

enum class IsaLevel : uint8_t {
  kGeneric = 0,  ///< The compiler's baseline: SSE2 on x86-64, NEON on AArch64.
  kV3 = 1,       ///< x86-64-v3: AVX2, F16C, BMI.
  kV4 = 2,       ///< x86-64-v4: AVX-512 F, BW, CD, DQ, VL.
};

/// The level of all kernels: the processor's best one, or the choice of HIPRESS_ISA or setIsaLevel(). Throws
/// InvalidArgument if HIPRESS_ISA names no level, or a level that this processor does not have.
IsaLevel isaLevel();

/// The best level of this processor.
IsaLevel bestIsaLevel();

/// Forces a level, for tests and measurements. Throws InvalidArgument if this processor lacks the level.
void setIsaLevel(IsaLevel level);

/// "generic", "x86-64-v3", "x86-64-v4".
std::string_view isaLevelName(IsaLevel level);
IsaLevel isaLevelFromName(std::string_view name);

#if defined(__x86_64__)
#define HIPRESS_X86 1
// GCC's default for x86-64-v4 is 256 bits. These kernels are bound by memory: wider registers are faster.
#define HIPRESS_TARGET_V4 __attribute__((target("arch=x86-64-v4,prefer-vector-width=512")))
#define HIPRESS_TARGET_V3 __attribute__((target("arch=x86-64-v3")))
#else
#define HIPRESS_X86 0
#endif

namespace detail {

/// Throws InvalidArgument: a library has code for `compiled` alone, and the level is the lower `current`.
[[noreturn]] void refuseLevel(IsaLevel compiled, IsaLevel current);

// `flatten` inlines the whole kernel into the function with the target, so that GCC vectorises the kernel's
// plain loops for it. Without optimisation nothing is inlined, and the result is the same, only slower.
#if HIPRESS_X86
template <typename Kernel, typename... Arguments>
HIPRESS_TARGET_V4 __attribute__((flatten, noinline)) auto runV4(Arguments... arguments) {
  return Kernel::run(arguments...);
}
template <typename Kernel, typename... Arguments>
HIPRESS_TARGET_V3 __attribute__((flatten, noinline)) auto runV3(Arguments... arguments) {
  return Kernel::run(arguments...);
}
#endif
template <typename Kernel, typename... Arguments>
__attribute__((flatten, noinline)) auto runGeneric(Arguments... arguments) {
  return Kernel::run(arguments...);
}

}  // namespace detail

/// Calls Kernel<level>::run(arguments...) at the current level. The arguments are pointers and numbers,
/// passed by value.
///
/// A library that is compiled where it runs defines HIPRESS_COMPILED_LEVEL, the number of an IsaLevel. It has
/// this level's version alone, because each version takes its time to compile. Such a library throws
/// InvalidArgument at lower levels, which only measurements and tests set after a library was loaded.
template <template <IsaLevel> class Kernel, typename... Arguments>
auto multiversion(Arguments... arguments) {
#if HIPRESS_X86 && !defined(HIPRESS_COMPILED_LEVEL)
  switch (isaLevel()) {
    case IsaLevel::kV4:
      return detail::runV4<Kernel<IsaLevel::kV4>>(arguments...);
    case IsaLevel::kV3:
      return detail::runV3<Kernel<IsaLevel::kV3>>(arguments...);
    case IsaLevel::kGeneric:
      break;
  }
  return detail::runGeneric<Kernel<IsaLevel::kGeneric>>(arguments...);
#elif HIPRESS_X86
  constexpr auto compiled = static_cast<IsaLevel>(HIPRESS_COMPILED_LEVEL);
  if (isaLevel() < compiled) detail::refuseLevel(compiled, isaLevel());
  if constexpr (compiled == IsaLevel::kV4) {
    return detail::runV4<Kernel<compiled>>(arguments...);
  } else if constexpr (compiled == IsaLevel::kV3) {
    return detail::runV3<Kernel<compiled>>(arguments...);
  } else {
    return detail::runGeneric<Kernel<compiled>>(arguments...);
  }
#else
  return detail::runGeneric<Kernel<IsaLevel::kGeneric>>(arguments...);
#endif
}

}  // namespace hipress
