// SPDX-License-Identifier: Apache-2.0
//
// The control plane over TCP: rank 0 serves, every rank (0 too) is a client. Start-up handshake with a job
// token.
#pragma once

#include <memory>
#include <string>

#include "core/control/control_plane.h"

namespace hipress {

/// How a host that cannot be reached any more is noticed.
struct HeartbeatOptions {
  /// Several beats must go unanswered within the limit: one may be lost, and TCP sends it again only after a
  /// while.
  Milliseconds interval{1000};
  Milliseconds limit{
      7000};  ///< A host that answers nothing for so long is lost. In all: up to limit + interval.
};

struct RendezvousOptions {
  int rank = 0;
  int worldSize = 1;
  std::string host =
      "127.0.0.1";    ///< Where rank 0 listens: host name or address. Rank 0 binds this address only.
  int port = 0;       ///< Rank 0: 0 picks a free one; the others: the one to connect to.
  int listenFd = -1;  ///< Rank 0: an already listening socket to take over (from a launcher), or -1.
  std::string token;  ///< Shared secret of the job; a process that has another one is refused.
  Milliseconds timeout{60000};  ///< For all ranks to arrive.
  HeartbeatOptions heartbeat;
  /// A rank that waits for so long warns of the rank that it waits for, and again after each such time; 0:
  /// never.
  Milliseconds stallWarning{60000};
};

/// Rank 0's half. Bound and listening once constructed; serves on its own thread until destroyed.
/// Throws Transport ("port in use", ...) with what to do.
class ControlServer {
 public:
  explicit ControlServer(const RendezvousOptions& options);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  int port() const;  ///< The port it listens on.

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Connects to rank 0, trying again until options.timeout; shakes hands; returns when accepted (not when all
/// have arrived: allgather() waits for that). Throws Refused, Timeout, Transport. `localAddress`, if given,
/// receives the address of this end of the connection: the interface that leads to rank 0.
std::unique_ptr<ControlPlane> connectControl(const RendezvousOptions& options,
                                             std::string* localAddress = nullptr);

}  // namespace hipress
