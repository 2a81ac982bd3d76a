// SPDX-License-Identifier: Apache-2.0
//
// The transport between processes, by UCX active messages. Ranks of one host use shared memory. Ranks of
// different hosts use the devices that the ranks chose together (bindings/python/network/).
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "core/control/control_plane.h"
#include "core/transport/transport.h"

namespace hipress {

struct UcxOptions {
  /// UCX's names of devices, as in UCX_NET_DEVICES: "eth1", "mlx5_0:1,mlx5_1:1". UCX listens on these devices
  /// only. Empty: the interface of `localAddress`.
  std::string devices;
  /// Address of this rank's end of the control connection. If this and `devices` are empty, UCX chooses.
  std::string localAddress;
  Milliseconds timeout{60000};  ///< For the exchange of addresses, and for each rank's answer.
  std::stop_token stop;         ///< Ends the wait for the answers early, with NotInitialized.
};

/// Connects all ranks of `control` with each other. Every rank calls it. Throws Timeout, PeerLost, Transport.
std::unique_ptr<Transport> makeUcxTransport(ControlPlane& control, const UcxOptions& options);

}  // namespace hipress
