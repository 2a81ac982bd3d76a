// SPDX-License-Identifier: Apache-2.0
#include "core/transport/neighbour/neighbour_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "core/base/error.h"

namespace hipress {
namespace {

/// Returns 0, or the error number.
int tryToRead(MemoryReference from, std::span<std::byte> into) {
  while (!into.empty()) {
    const iovec here{into.data(), into.size()};
    // The address is valid in the other process only.
    const iovec there{reinterpret_cast<void*>(static_cast<uintptr_t>(from.address)), into.size()};
    const ssize_t bytes = ::process_vm_readv(static_cast<pid_t>(from.process), &here, 1, &there, 1, 0);
    if (bytes < 0) return errno;
    if (bytes == 0) return EFAULT;
    // Linux reads 2 GiB a call at most, and stops where readable memory ends: the next call tells which it
    // was.
    into = into.subspan(static_cast<size_t>(bytes));
    from = from.after(static_cast<size_t>(bytes));
  }
  return 0;
}

/// A known value in a rank's memory, and its place; as text, for the control plane.
struct Landmark {
  MemoryReference reference;
  uint64_t value = 0;

  std::string text() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  bool isReadable() const {
    uint64_t found = 0;
    return tryToRead(reference, std::as_writable_bytes(std::span(&found, 1))) == 0 && found == value;
  }
};

/// The answer of a rank that has tried to read another rank's memory.
constexpr const char* kReadable = "1";
constexpr const char* kNotReadable = "";

Landmark landmarkOf(const std::string& text) {
  if (text.size() != sizeof(Landmark))
    throw Error(ErrorKind::kMismatch, "ranks run different versions of HiPress; install one on all hosts");
  Landmark landmark;
  std::memcpy(&landmark, text.data(), sizeof landmark);
  return landmark;
}

}  // namespace

MemoryReference MemoryReference::to(const void* values) {
  return {static_cast<uint64_t>(::getpid()), static_cast<uint64_t>(reinterpret_cast<uintptr_t>(values))};
}

void readMemory(const MemoryReference& from, std::span<std::byte> into) {
  const int failed = tryToRead(from, into);
  if (failed == 0) return;
  throw Error(ErrorKind::kPeerLost, "the memory of process " + std::to_string(from.process) +
                                        " cannot be read (" + std::strerror(failed) +
                                        "); the process has probably ended: see its log");
}

std::vector<uint64_t> gatherNeighbours(ControlPlane& control, int rank, const std::vector<int>& hosts,
                                       Milliseconds timeout) {
  const uint64_t value = std::random_device{}() | uint64_t{1} << 32;
  const Landmark own{MemoryReference::to(&value), value};
  const auto landmarks = control.allgather("landmarks", own.text(), timeout);
  std::vector<std::string> sees(hosts.size(), kNotReadable);
  for (size_t peer = 0; peer < hosts.size(); ++peer) {
    const bool neighbour = hosts[peer] == hosts[static_cast<size_t>(rank)];
    if (neighbour && landmarkOf(landmarks[peer]).isReadable()) sees[peer] = kReadable;
  }
  // After it all ranks have read the landmarks, so this rank's landmark may go.
  const auto seen = control.alltoall("readable", sees, timeout);
  std::vector<uint64_t> processes(hosts.size());
  for (size_t peer = 0; peer < hosts.size(); ++peer) {
    const bool both = sees[peer] == kReadable && seen[peer] == kReadable;
    if (both) processes[peer] = landmarkOf(landmarks[peer]).reference.process;
  }
  return processes;
}

std::vector<uint64_t> neighboursAmongThreads(int rank, const std::vector<int>& hosts) {
  std::vector<uint64_t> processes;
  for (const int host : hosts) {
    const bool neighbour = host == hosts[static_cast<size_t>(rank)];
    processes.push_back(neighbour ? static_cast<uint64_t>(::getpid()) : 0);
  }
  return processes;
}

}  // namespace hipress
