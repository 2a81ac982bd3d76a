// SPDX-License-Identifier: Apache-2.0
//
// The control plane over TCP: rank 0 is the server, and every rank (rank 0 too) is a client. The ranks prove
// the job token when they connect.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "core/control/control_plane.h"

namespace hipress {

/// The detection of an unreachable host.
struct HeartbeatOptions {
  /// The limit must cover several beats without answer: one beat may be lost, and TCP sends it again only
  /// after a while.
  Milliseconds interval{1000};
  /// A host that answers nothing for this time is lost; for three times as long while gradients pass between
  /// this host and others. Detected after at most one interval more.
  Milliseconds limit{7000};
};

struct RendezvousOptions {
  int rank = 0;
  int worldSize = 1;
  std::string host =
      "127.0.0.1";    ///< Rank 0's host name or address, at which it listens. Rank 0 binds this address only.
  int port = 0;       ///< Rank 0: the port to listen on, 0 for a free one. Others: rank 0's port.
  int listenFd = -1;  ///< Rank 0: a socket of a launcher that listens already, or -1.
  std::string token;  ///< The secret of the job. Rank 0 refuses a process with another one.
  Milliseconds timeout{60000};  ///< All ranks have to arrive within this time.
  HeartbeatOptions heartbeat;
  /// A rank that waits for this time warns of the rank for which it waits, and again after each such time; 0:
  /// it never warns.
  Milliseconds stallWarning{60000};
  std::stop_token stop;  ///< Ends the wait for rank 0 early, with NotInitialized.
};

/// Rank 0's server. Listens once it is constructed, and serves on its own thread until it is destroyed.
/// Throws Transport ("port in use", ...) with advice.
class ControlServer {
 public:
  explicit ControlServer(const RendezvousOptions& options);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  int port() const;  ///< The port on which it listens.

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to rank 0, tries again until options.timeout, and shakes hands. Returns when rank 0 has accepted
/// this rank; allgather() waits for all ranks. Throws Refused, Timeout, Transport. `localAddress`, if given,
/// receives the address of this end of the connection: the interface that leads to rank 0.
std::unique_ptr<ControlPlane> connectControl(const RendezvousOptions& options,
                                             std::string* localAddress = nullptr);

}  // namespace hipress
