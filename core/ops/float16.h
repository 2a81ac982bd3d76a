// SPDX-License-Identifier: Apache-2.0
//
// Elements of type float16. Between messages a program keeps them as floats of the same value.
#pragma once

#include <cstdint>

#include "core/element/half.h"
#include "core/ops/host_device.h"

namespace hipress::ops {

/// The nearest float16, of two the even one; from 65520 on it is infinite.
HIPRESS_HOST_DEVICE constexpr float toFloat16(float x) {
  return halfToFloat(floatToHalf(x));
}

/// The 16 bits of a value that toFloat16() has given.
HIPRESS_HOST_DEVICE constexpr int32_t float16Bits(float x) {
  return floatToHalf(x);
}

/// The value of these bits.
HIPRESS_HOST_DEVICE constexpr float float16Of(int32_t bits) {
  return halfToFloat(static_cast<uint16_t>(bits));
}

}  // namespace hipress::ops
