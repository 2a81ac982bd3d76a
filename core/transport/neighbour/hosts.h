// SPDX-License-Identifier: Apache-2.0
//
// Which ranks share a host, for topologies that treat neighbours differently.
#pragma once

#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// Number of each rank's host, in the order of their lowest rank, from 0. All ranks call it together. Throws
/// what ControlPlane::allgather() throws.
std::vector<int> gatherHosts(ControlPlane& control, Milliseconds timeout);

}  // namespace hipress
