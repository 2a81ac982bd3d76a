// SPDX-License-Identifier: Apache-2.0
//
// What prefix_sum and prefix_max combine elements with. Combining with kFirst changes nothing.
#pragma once

#include <cstdint>

#include "core/ops/host_device.h"
#include "core/ops/scalar.h"

namespace hipress::ops {

struct PrefixSum {
  using Value = int32_t;
  static constexpr int32_t kFirst = 0;
  HIPRESS_HOST_DEVICE int32_t operator()(int32_t a, int32_t b) const { return addInt(a, b); }
};

struct PrefixMax {
  using Value = int32_t;
  static constexpr int32_t kFirst = -2147483647 - 1;
  HIPRESS_HOST_DEVICE int32_t operator()(int32_t a, int32_t b) const { return greater(a, b); }
};

}  // namespace hipress::ops
