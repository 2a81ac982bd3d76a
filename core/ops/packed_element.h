// SPDX-License-Identifier: Apache-2.0
//
// One element of a packed vector (width 1, 2, 4 or 8 bits, low bits first), for code that needs only one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/host_device.h"

namespace hipress::ops {

HIPRESS_HOST_DEVICE inline int32_t unpackElement(const uint8_t* field, size_t element, unsigned width) {
  const size_t bit = element * width;
  return (field[bit / 8] >> (bit % 8)) & static_cast<int32_t>((1u << width) - 1u);
}

/// Elements must come in order, because the first element of a byte clears the others.
HIPRESS_HOST_DEVICE inline void packElement(int32_t code, uint8_t* field, size_t element, unsigned width) {
  const size_t bit = element * width;
  const auto bits = static_cast<uint8_t>(static_cast<unsigned>(code) << (bit % 8));
  field[bit / 8] = bit % 8 == 0 ? bits : static_cast<uint8_t>(field[bit / 8] | bits);
}

}  // namespace hipress::ops
