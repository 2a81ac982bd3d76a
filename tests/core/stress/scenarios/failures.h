// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/core/stress/world/world.h"

namespace hipress::stress {

/// Runs ranks that synchronise until something goes wrong, while `saboteur` makes it go wrong, and takes the
/// engines down. Every waiting call must end, and all memory be let go of, once.
void runUntilFailure(Random& random, World world, const std::function<void(World&)>& saboteur);

/// What goes wrong without touching messages: engines fail, leave, are shut down or destroyed.
std::function<void(World&)> randomSaboteur(Random& random);

}  // namespace hipress::stress
