// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/shares.h"

#include <algorithm>
#include <cstdint>

#include "core/casync/graph/partition.h"

namespace hipress {

/// FNV-1a.
uint32_t numberOfName(std::string_view name) {
  uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

int firstAggregator(std::string_view name, int worldSize) {
  return static_cast<int>(numberOfName(name) % static_cast<uint32_t>(worldSize));
}

size_t defaultPartitions(size_t bytes, size_t partitionBytes, int worldSize) {
  const auto world = static_cast<size_t>(worldSize);
  // The messages of a smaller partition cost more than shared aggregation saves.
  constexpr size_t kWorthSharing = size_t{128} << 10;
  if (bytes < kWorthSharing) return 1;
  const size_t pieces = (bytes + partitionBytes - 1) / partitionBytes;
  // A multiple of the world size, so that every rank aggregates the same share.
  const size_t wanted = pieces <= world ? std::min(world, (bytes + kWorthSharing - 1) / kWorthSharing)
                                        : (pieces + world - 1) / world * world;
  if (wanted <= kMaxPartitions) return wanted;
  // With more ranks than partitions, some ranks aggregate nothing.
  return world <= kMaxPartitions ? kMaxPartitions / world * world : kMaxPartitions;
}

}  // namespace hipress
