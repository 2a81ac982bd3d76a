// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/control/control_plane.h"
#include "core/transport/ucx/ucx_context.h"

namespace hipress {

/// The text that a rank gives to all other ranks before they connect.
struct UcxAddress {
  std::string host;    ///< hostIdentity()
  std::string nonce;   ///< Fresh for this start; the keys of the links depend on it.
  std::string worker;  ///< UcxWorker::address()
};

/// The addresses of all ranks; index: the rank. Throws Timeout, PeerLost, Mismatch.
std::vector<UcxAddress> exchangeAddresses(ControlPlane& control, const UcxWorker& worker,
                                          Milliseconds timeout);

std::vector<std::string> noncesOf(const std::vector<UcxAddress>& addresses);

}  // namespace hipress
