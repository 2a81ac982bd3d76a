// SPDX-License-Identifier: Apache-2.0
//
// Small integers, two in a byte: int8 from -8 to 7 in 4 bits, two's complement, the first one in the lower
// half. The last byte of an odd number of integers has zeros in its upper half.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hipress {

/// All integers up to this magnitude fit into 4 bits.
inline constexpr int64_t kMostNibble = 7;

/// Bytes of `count` packed integers.
constexpr size_t nibbleBytes(size_t count) {
  return count / 2 + count % 2;
}

/// Packs `count` int8. Returns false if one of them does not fit: the packed bytes are of no use then.
/// Addresses need no alignment.
[[nodiscard]] bool packNibbles(const void* integers, size_t count, void* packed);

/// output[i] := the sum of the i-th int8 of every contribution, which wraps, in one pass over memory. Some
/// contributions are packed, the others are not. `output` may be one that is not. Addresses need no
/// alignment.
void sumNibbles(std::span<const void* const> packed, std::span<const void* const> integers, size_t count,
                void* output);

}  // namespace hipress
