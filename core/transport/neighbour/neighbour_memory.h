// SPDX-License-Identifier: Apache-2.0
//
// Reading the memory of another process on this host without its help (Linux: process_vm_readv). A gradient
// that only its neighbour needs is not sent to it: the neighbour learns where it is and reads it once, in
// pieces that stay in the cache until they are added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// The place of values in another process. A message carries it instead of the values.
struct MemoryReference {
  uint64_t process = 0;
  uint64_t address = 0;

  static MemoryReference to(const void* values);
  /// The same `bytes` further on.
  MemoryReference after(size_t bytes) const { return {process, address + bytes}; }
};

/// Copies from there. Throws PeerLost if the process has ended, or does not have that memory any more.
void readMemory(const MemoryReference& from, std::span<std::byte> into);

/// By rank: the process whose memory this rank can read while that can read its, or 0. Found out by trying
/// among the ranks of each host, as permissions and containers may forbid it. All ranks call it together.
/// Throws what ControlPlane::allgather() throws.
std::vector<uint64_t> gatherNeighbours(ControlPlane& control, int rank, const std::vector<int>& hosts,
                                       Milliseconds timeout);

/// The same where all ranks are threads of this process.
std::vector<uint64_t> neighboursAmongThreads(int rank, const std::vector<int>& hosts);

}  // namespace hipress
