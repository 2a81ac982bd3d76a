// SPDX-License-Identifier: Apache-2.0
//
// Digits 0, 1 and 2 in a message: a byte is d0 + 3·d1 + 9·d2 + 27·d3 + 81·d4, so 243 of its values are used.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/block.h"
#include "core/ops/host_device.h"

namespace hipress::ops {

/// What digit number `place` of a byte is multiplied by.
HIPRESS_HOST_DEVICE constexpr unsigned weightOfTrit(size_t place) {
  return place == 0 ? 1 : place == 1 ? 3 : place == 2 ? 9 : place == 3 ? 27 : 81;
}

/// One digit of a vector. The bytes may be of a message, so any value is possible.
HIPRESS_HOST_DEVICE constexpr int32_t tritOf(unsigned byte, size_t element) {
  return static_cast<int32_t>(byte / weightOfTrit(element % kTritsOfByte) % 3);
}

/// The least value that byte number `byte` of a vector of `count` digits cannot have: digits behind the last
/// element are 0.
HIPRESS_HOST_DEVICE constexpr unsigned limitOfTrits(size_t byte, size_t count) {
  const size_t left = count - byte * kTritsOfByte;
  return left < kTritsOfByte ? weightOfTrit(left) : kTrits;
}

}  // namespace hipress::ops
