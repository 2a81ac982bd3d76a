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

/// Where values are in another process: what a message carries instead of them.
struct MemoryReference {
  uint64_t process = 0;
  uint64_t address = 0;

  static MemoryReference to(const void* values);
  /// The same `bytes` further on.
  MemoryReference after(size_t bytes) const { return {process, address + bytes}; }
};
inline constexpr size_t kReferenceBytes = sizeof(MemoryReference);

/// Copies from there. Throws PeerLost if the process has ended, or does not have that memory any more.
void readMemory(const MemoryReference& from, std::span<std::byte> into);

/// Which ranks' memory this rank can read while they can read its: found out by trying among the ranks of
/// each host, as permissions and containers may forbid it. All ranks call it together. Throws what
/// ControlPlane::allgather() throws.
std::vector<bool> gatherReadable(ControlPlane& control, int rank, const std::vector<int>& hosts,
                                 Milliseconds timeout);

/// The same where all ranks are threads of this process.
std::vector<bool> readableAmongThreads(int rank, const std::vector<int>& hosts);

}  // namespace hipress
