// SPDX-License-Identifier: Apache-2.0
//
// Numbers of elements, blocks and bytes, as the language counts them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>

#include "core/ops/host_device.h"

namespace hipress::ops {

/// A block has one element or more, whatever the program says.
HIPRESS_HOST_DEVICE inline int32_t atLeastOne(int32_t block) {
  return block < 1 ? 1 : block;
}

/// A negative count is none.
HIPRESS_HOST_DEVICE inline size_t asCount(int32_t count) {
  return count < 0 ? 0 : static_cast<size_t>(count);
}

/// How many blocks `count` elements make, the last one maybe short.
HIPRESS_HOST_DEVICE inline size_t blockCount(size_t count, size_t block) {
  return (count + block - 1) / block;
}

/// The least number of elements that is whole blocks and, packed in any width, whole bytes.
inline size_t blockAlignment(size_t block) {
  return std::lcm(block, size_t{8});
}

/// Bytes that `count` elements of `width` bits take in a message.
HIPRESS_HOST_DEVICE inline size_t packedBytes(size_t count, unsigned width) {
  return (count * width + 7) / 8;
}

}  // namespace hipress::ops
