// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/shared_memory.h"

#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>
#include <utility>

#include "core/base/error.h"
#include "core/control/roster.h"
#include "core/transport/neighbour/host_identity.h"

namespace hipress {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
/// UCX takes memory in pieces of 512 segments, of 32 KiB or, if they are small, of 8 KiB. A rank takes one
/// piece at its start. 256 segments are its receive queue. Each large message that waits takes a segment,
/// too.
constexpr uint64_t kPieceMiB = 17;
constexpr uint64_t kSmallPieceMiB = 5;
/// With this number of pieces 7,900 large messages may wait for a rank's receives.
constexpr uint64_t kAmplePieces = 16;
/// One piece, and as much again for what UCX allocates besides.
constexpr uint64_t kFewestPieces = 2;

constexpr const char* kFolder = "/dev/shm";

bool makesSystemV() {
  const int segment = ::shmget(IPC_PRIVATE, kPieceMiB * kMiB, IPC_CREAT | IPC_EXCL | 0600);
  if (segment < 0) return false;
  ::shmctl(segment, IPC_RMID, nullptr);
  return true;
}

std::string mebibytes(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

std::string packRoom(const SharedMemoryRoom& room) {
  std::ostringstream text;
  const bool chosen = std::getenv("UCX_TLS") != nullptr;
  text << chosen << ' ' << room.systemV << ' ' << room.size << ' ' << room.free << ' ' << room.folder << '\0'
       << hostIdentity();
  return text.str();
}

/// The ranks of one host, and the least that one of them finds.
struct SharingRanks {
  std::vector<int> ranks;
  SharedMemoryRoom room;
  bool userChooses = false;
};

void join(SharingRanks& host, int rank, const std::string& packed) {
  const size_t split = packed.find('\0');
  std::istringstream text(packed.substr(0, split));
  SharedMemoryRoom room;
  bool chosen = false;
  if (split == std::string::npos || !(text >> chosen >> room.systemV >> room.size >> room.free >> std::ws) ||
      !std::getline(text, room.folder))
    throw Error(ErrorKind::kMismatch, "ranks run different versions of HiPress; install one on all hosts");
  host.userChooses |= chosen;
  if (host.ranks.empty() || room.free < host.room.free) {
    room.systemV &= host.ranks.empty() || host.room.systemV;
    host.room = room;
  }
  host.room.systemV &= room.systemV;
  host.ranks.push_back(rank);
}

}  // namespace

SharedMemoryRoom sharedMemoryRoom() {
  SharedMemoryRoom room;
  const char* const folder = std::getenv("UCX_POSIX_DIR");
  room.folder = folder == nullptr ? kFolder : folder;
  room.systemV = makesSystemV();
  struct statvfs found{};
  if (::statvfs(room.folder.c_str(), &found) != 0) return room;
  room.size = found.f_blocks * found.f_frsize;
  if (::access(room.folder.c_str(), W_OK | X_OK) == 0) room.free = found.f_bavail * found.f_frsize;
  return room;
}

uint64_t sharedMemoryNeeded(size_t ranks) {
  return ranks < 2 ? 0 : ranks * kAmplePieces * kPieceMiB * kMiB;
}

SharedMemoryKind sharedMemoryFor(size_t ranks, const SharedMemoryRoom& room, const std::string& who) {
  if (ranks < 2) return SharedMemoryKind::kNone;
  const auto fits = [&](uint64_t pieceMiB, uint64_t pieces) {
    return room.free >= ranks * pieces * pieceMiB * kMiB;
  };
  if (fits(kPieceMiB, kAmplePieces)) return SharedMemoryKind::kPosix;
  if (room.systemV) return SharedMemoryKind::kSystemV;
  if (fits(kPieceMiB, kFewestPieces)) return SharedMemoryKind::kTightPosix;
  if (fits(kSmallPieceMiB, kFewestPieces)) return SharedMemoryKind::kTiniestPosix;
  const std::string needed = mebibytes(sharedMemoryNeeded(ranks));
  const std::string found = room.free == 0 ? "cannot be used (is it mounted, and writable?)"
                                           : "has only " + mebibytes(room.free) + " free";
  throw transportError(who + " need " + needed + " of shared memory for their messages, and " + room.folder +
                       " " + found +
                       "; System V shared memory is not allowed here either. Give the container more: docker "
                       "run --shm-size=" +
                       std::to_string(sharedMemoryNeeded(ranks) / kMiB) +
                       "m, or in Kubernetes an emptyDir volume with medium: Memory and sizeLimit: " +
                       std::to_string(sharedMemoryNeeded(ranks) / kMiB) + "Mi at /dev/shm");
}

SharedMemoryKind agreeOnSharedMemory(ControlPlane& control, Milliseconds timeout) {
  const auto rooms = control.allgather("transport.memory", packRoom(sharedMemoryRoom()), timeout);
  std::map<std::string, SharingRanks> hosts;
  const auto hostOf = [&](size_t rank) -> SharingRanks& {
    return hosts[rooms[rank].substr(std::min(rooms[rank].find('\0'), rooms[rank].size()))];
  };
  for (size_t rank = 0; rank < rooms.size(); ++rank) join(hostOf(rank), static_cast<int>(rank), rooms[rank]);
  std::map<std::string, SharedMemoryKind> kinds;
  for (const auto& [identity, host] : hosts) {
    kinds[identity] = host.userChooses
                          ? SharedMemoryKind::kUsersChoice
                          : sharedMemoryFor(host.ranks.size(), host.room, control::rankList(host.ranks));
  }
  const std::string& own = rooms[static_cast<size_t>(control.rank())];
  return kinds[own.substr(own.find('\0'))];
}

}  // namespace hipress
