// SPDX-License-Identifier: Apache-2.0
//
// The innermost loop of reductions: lanes[j] = lanes[j] combined with values[16·group + j], group after
// group. Combine is Sum, Least or Greatest. The x86 levels have code by hand, because GCC does not keep the
// lanes of a plain loop in registers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/element/multiversion.h"
#include "core/ops/tile.h"

#if HIPRESS_X86
#include "core/ops/cpu/reduce_lanes_v3.h"
#include "core/ops/cpu/reduce_lanes_v4.h"
#endif

namespace hipress::ops::detail {

template <IsaLevel level>
struct CombineLanes {
  template <typename Combine, typename T, typename Element>
  static void run(T* __restrict lanes, const Element* __restrict values, size_t groups) {
#if HIPRESS_X86
    if constexpr (level == IsaLevel::kV4) return combineLanesV4<Combine>(lanes, values, groups);
    if constexpr (level == IsaLevel::kV3) return combineLanesV3<Combine>(lanes, values, groups);
#endif
    if constexpr (level < IsaLevel::kV3) {
      T sums[kLanes];
      for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] = lanes[lane];
      for (size_t group = 0; group < groups; ++group) {
        for (size_t lane = 0; lane < kLanes; ++lane) {
          sums[lane] = Combine()(sums[lane], static_cast<T>(values[group * kLanes + lane]));
        }
      }
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = sums[lane];
    }
  }
};

}  // namespace hipress::ops::detail
