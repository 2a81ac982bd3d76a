// SPDX-License-Identifier: Apache-2.0
//
// The control plane for ranks that are threads of one process (tests): the same ledger, without sockets.
#pragma once

#include <memory>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// One ControlPlane per rank. They share the ledger, which lives as long as any of them. Destroying or
/// close()-ing one without leave() or abort() looks to the others as if the rank had died (kLost).
std::vector<std::unique_ptr<ControlPlane>> makeLocalControl(int worldSize);

}  // namespace hipress
