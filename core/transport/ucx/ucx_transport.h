// SPDX-License-Identifier: Apache-2.0
//
// The transport between processes: UCX active messages. Ranks of one host talk through shared memory, others
// over the devices that they have chosen together (bindings/python/network/).
#pragma once

#include <memory>
#include <string>

#include "core/control/control_plane.h"
#include "core/transport/transport.h"

namespace hipress {

struct UcxOptions {
  /// Devices by UCX's names, as UCX_NET_DEVICES has them: "eth1", "mlx5_0:1,mlx5_1:1". UCX listens on these
  /// only. Empty: the interface of `localAddress`.
  std::string devices;
  /// Address of this rank's end of the control connection. Empty, without devices either: UCX chooses.
  std::string localAddress;
  Milliseconds timeout{60000};  ///< For all ranks to exchange their addresses, and for each to answer.
};

/// Connects all ranks of `control` with each other. Every rank calls it. Throws Timeout, PeerLost, Transport.
std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options);

}  // namespace hipress
