// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hipress {

struct Partition {
  size_t first = 0;  // first element
  size_t count = 0;
};

/// Boundaries are multiples of this number of elements, so that packed bits and vector registers do not cross
/// them.
inline constexpr size_t kPartitionAlignment = 1024;
inline constexpr size_t kMaxPartitions = 4096;

/// Splits `count` elements into at most `partitions` non-empty pieces of nearly equal size, in order. Without
/// elements the result is one empty piece.
inline std::vector<Partition> splitElements(size_t count, size_t partitions) {
  const size_t blocks = (count + kPartitionAlignment - 1) / kPartitionAlignment;
  const size_t pieces = partitions < 1 ? 1 : (partitions < blocks ? partitions : (blocks < 1 ? 1 : blocks));
  std::vector<Partition> result;
  size_t first = 0;
  for (size_t piece = 0; piece < pieces; ++piece) {
    const size_t pieceBlocks = blocks / pieces + (piece < blocks % pieces ? 1 : 0);
    const size_t end = first + pieceBlocks * kPartitionAlignment;
    const size_t bounded = end < count ? end : count;
    result.push_back({first, bounded - first});
    first = bounded;
  }
  return result;
}

}  // namespace hipress
