// SPDX-License-Identifier: Apache-2.0
//
// The control plane for ranks that are threads of one process (tests): the same ledger, without sockets.
#pragma once

#include <memory>
#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// Makes one ControlPlane per rank. They share the ledger, which lives as long as one of them. If one is
/// destroyed or closed without leave() or abort(), the other ranks see a dead rank (kLost).
std::vector<std::unique_ptr<ControlPlane>> makeLocalControl(int worldSize);

}  // namespace hipress
