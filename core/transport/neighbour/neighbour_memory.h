// SPDX-License-Identifier: Apache-2.0
//
// Reads the memory of another process on this host without its help (Linux: process_vm_readv). If only a
// neighbour needs a gradient, the rank sends the gradient's address. The neighbour reads the gradient once,
// in pieces that stay in the cache until it adds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// The place of values in another process. A message carries the place instead of the values.
struct MemoryReference {
  uint64_t process = 0;
  uint64_t address = 0;

  static MemoryReference to(const void* values);
  /// The place `bytes` bytes further on.
  MemoryReference after(size_t bytes) const { return {process, address + bytes}; }
};

/// Copies from that memory. Throws PeerLost if the process has ended or has released the memory.
void readMemory(const MemoryReference& from, std::span<std::byte> into);

/// For each rank: its process if this rank and that rank can read each other's memory, else 0. The ranks of a
/// host find out by trying, because permissions and containers may forbid it. All ranks call it together.
/// Throws the errors of ControlPlane::allgather().
std::vector<uint64_t> gatherNeighbours(ControlPlane& control, int rank, const std::vector<int>& hosts,
                                       Milliseconds timeout);

/// gatherNeighbours() for ranks that are threads of this process.
std::vector<uint64_t> neighboursAmongThreads(int rank, const std::vector<int>& hosts);

}  // namespace hipress
