// SPDX-License-Identifier: Apache-2.0
//
// One element of a packed vector (width 1 to 8 or 12 bits, low bits first, or kTrits), for code that needs
// only one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ops/host_device.h"
#include "core/ops/trits.h"

namespace hipress::ops {

HIPRESS_HOST_DEVICE inline int32_t unpackElement(const uint8_t* field, size_t element, unsigned width) {
  if (width == kTrits) return tritOf(field[element / kTritsOfByte], element);
  const size_t bit = element * width;
  unsigned bits = field[bit / 8];
  // A byte is read only if it has bits of the element: another might be outside of the message.
  if (bit % 8 + width > 8) bits |= static_cast<unsigned>(field[bit / 8 + 1]) << 8;
  return static_cast<int32_t>((bits >> (bit % 8)) & ((1u << width) - 1u));
}

/// Elements must come in order, because the first element of a byte clears the others.
HIPRESS_HOST_DEVICE inline void packElement(int32_t code, uint8_t* field, size_t element, unsigned width) {
  if (width == kTrits) {
    const size_t place = element % kTritsOfByte;
    uint8_t& byte = field[element / kTritsOfByte];
    byte = static_cast<uint8_t>((place == 0 ? 0 : byte) + static_cast<unsigned>(code) * weightOfTrit(place));
    return;
  }
  const size_t bit = element * width;
  const unsigned bits = static_cast<unsigned>(code) << (bit % 8);
  field[bit / 8] = static_cast<uint8_t>(bit % 8 == 0 ? bits : field[bit / 8] | bits);
  if (bit % 8 + width > 8) field[bit / 8 + 1] = static_cast<uint8_t>(bits >> 8);
}

}  // namespace hipress::ops
