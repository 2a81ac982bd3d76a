// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/collectives.h"

namespace hipress {

std::vector<uint64_t> divideRows(uint64_t rows, uint64_t rowElements, int worldSize) {
  const auto world = static_cast<uint64_t>(worldSize);
  std::vector<uint64_t> counts;
  for (uint64_t rank = 0; rank < world; ++rank) {
    counts.push_back((rows / world + (rank < rows % world ? 1 : 0)) * rowElements);
  }
  return counts;
}

std::vector<Partition> behindEachOther(const std::vector<uint64_t>& counts) {
  std::vector<Partition> blocks;
  size_t first = 0;
  for (const uint64_t count : counts) {
    blocks.push_back({first, static_cast<size_t>(count)});
    first += static_cast<size_t>(count);
  }
  return blocks;
}

}  // namespace hipress
