// SPDX-License-Identifier: Apache-2.0
//
// The transport between processes: UCX active messages. Ranks of one host talk through shared memory, others
// over TCP or whatever faster network UCX finds.
#pragma once

#include <memory>
#include <string>

#include "core/control/control_plane.h"
#include "core/transport/transport.h"

namespace hipress {

struct UcxOptions {
  /// Address of this rank's end of the control connection; names the network interface that leads to the
  /// others. UCX listens on that one only. Empty: UCX chooses.
  std::string localAddress;
  Milliseconds timeout{60000};  ///< For all ranks to exchange their addresses, and for each to answer.
};

/// Connects all ranks of `control` with each other. Every rank calls it. Throws Timeout, PeerLost, Transport.
std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options);

}  // namespace hipress
