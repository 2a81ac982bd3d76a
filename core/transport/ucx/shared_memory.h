// SPDX-License-Identifier: Apache-2.0
//
// The shared memory through which UCX moves messages between the ranks of a host. UCX takes a part of it when
// a rank starts, and more for large messages that wait for their receives. If it finds none then, the process
// crashes. So the ranks compare what their host has with what they need before UCX starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// The largest segment of shared memory. A longer message comes in several segments, which UCX puts together
/// elsewhere.
inline constexpr size_t kSharedSegmentBytes = size_t{32} << 10;

enum class SharedMemoryKind : uint8_t {
  kNone,          ///< The rank is alone on its host.
  kPosix,         ///< Files in /dev/shm.
  kSystemV,       ///< System V segments. /dev/shm does not limit them.
  kTightPosix,    ///< Files in /dev/shm that do not grow: large messages wait elsewhere, and are slower.
  kTiniestPosix,  ///< The same with small segments.
  kUsersChoice,   ///< UCX_TLS names the transports.
};

/// What a rank finds on its host.
struct SharedMemoryRoom {
  std::string folder;  ///< /dev/shm, or UCX_POSIX_DIR
  uint64_t size = 0;   ///< Bytes of its file system.
  uint64_t free = 0;   ///< Bytes that this process may use; 0: no such folder, or no permission to write.
  bool systemV = false;
};
SharedMemoryRoom sharedMemoryRoom();

/// Bytes that `ranks` ranks of a host should have in /dev/shm, with room for messages that wait.
uint64_t sharedMemoryNeeded(size_t ranks);

/// The kind for `ranks` ranks of one host that find `room`. Throws Transport with the missing MiB and the
/// options of containers. `who` names the ranks in that error.
SharedMemoryKind sharedMemoryFor(size_t ranks, const SharedMemoryRoom& room, const std::string& who);

/// The kind for this rank: the same for all ranks of a host, because all ranks call it together before one of
/// them takes memory. Throws the error of sharedMemoryFor() on all ranks if a host has too little, and the
/// errors of ControlPlane::allgather().
SharedMemoryKind agreeOnSharedMemory(ControlPlane& control, Milliseconds timeout);

}  // namespace hipress
