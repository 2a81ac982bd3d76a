// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/core/stress/world/workload.h"
#include "tests/core/stress/world/world.h"

namespace hipress::stress {

/// Runs the workload on all ranks with several threads each, checks every value, and says goodbye.
void runCollectives(Random& random, World& world, const Workload& workload);

}  // namespace hipress::stress
