// SPDX-License-Identifier: Apache-2.0
//
// Finds which ranks share a host, for topologies that treat neighbours differently.
#pragma once

#include <vector>

#include "core/control/control_plane.h"

namespace hipress {

/// The host number of each rank. Hosts are numbered from 0, in the order of their lowest ranks. All ranks
/// call it together. Throws the errors of ControlPlane::allgather().
std::vector<int> gatherHosts(ControlPlane& control, Milliseconds timeout);

}  // namespace hipress
