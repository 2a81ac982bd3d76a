// SPDX-License-Identifier: Apache-2.0
//
// The TCP ports on which UCX listens. UCX accepts every connection and keeps all bytes that it gets, so the
// ports are open only while ranks connect: then strangers who connected meanwhile are cut off, and the kernel
// drops whatever else knocks, before UCX sees a byte. UCX has no interface for its sockets; they are found
// among the process' descriptors. docs/security.md says against whom this protects.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipress {

/// The sockets on which this process listens for TCP.
std::vector<int> listeningSockets();

class DataPort {
 public:
  /// `before`: listeningSockets() before UCX opened its own.
  explicit DataPort(const std::vector<int>& before);

  /// The TCP connections of this process, for ranks to compare: a line "own address>other's address" each.
  std::string connections() const;

  /// No further connection is accepted. Cuts off those that no rank says are its own; `ofAllRanks` are their
  /// connections(). Returns how many were cut off. Throws Transport if the kernel does not allow it.
  size_t close(const std::vector<std::string>& ofAllRanks);

  /// Packets that came for the ports since they were closed: of one attempt to connect the kernel of the
  /// stranger sends several.
  uint64_t packetsDropped() const;

 private:
  std::vector<int> listeners_;
};

}  // namespace hipress
