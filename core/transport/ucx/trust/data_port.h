// SPDX-License-Identifier: Apache-2.0
//
// The TCP ports on which UCX listens. UCX accepts every connection and keeps all bytes it gets, so the ports
// are open only while ranks connect. Then this class cuts off strangers that connected meanwhile, and the
// kernel drops later packets before UCX sees a byte. UCX does not show its sockets, so this class finds them
// among the process' descriptors: those that are new, and whose address and port are part of UCX's own
// address. Other threads of the process may open ports meanwhile. docs/security.md names the attackers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hipress {

/// The sockets on which this process listens for TCP connections.
std::vector<int> listeningSockets();

class DataPort {
 public:
  /// `before`: the result of listeningSockets() before UCX opened its ports. `ucx`: UcxWorker::address().
  DataPort(const std::vector<int>& before, std::string_view ucx);

  /// The numbers of the ports on which UCX listens, a line for each, for the other ranks.
  std::string ports() const;

  /// For each rank the ends, on this side, of the connections of this process that may lead to it, a line for
  /// each. `ofAllRanks`: the ranks' ports(). Ranks of several hosts may have ports of the same number.
  std::vector<std::string> connectionsTo(const std::vector<std::string>& ofAllRanks) const;

  /// Admits no further connection, and cuts off each one that no rank claims. `fromAllRanks`: what all ranks'
  /// connectionsTo() has for this rank. Returns the number cut off. Throws Transport if the kernel does not
  /// allow it.
  size_t close(const std::vector<std::string>& fromAllRanks);

  /// Packets to the ports since they were closed. For one attempt to connect, the stranger's kernel sends
  /// several packets.
  uint64_t packetsDropped() const;

 private:
  std::vector<int> listeners_;
};

}  // namespace hipress
