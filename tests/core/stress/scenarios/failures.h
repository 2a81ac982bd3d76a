// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "tests/core/stress/world/world.h"

namespace hipress::stress {

/// Runs ranks that synchronise until `saboteur` causes a failure, and shuts the engines down. Every waiting
/// call must end, and all memory must be released exactly once.
void runUntilFailure(Random& random, World world, const std::function<void(World&)>& saboteur);

/// A saboteur that does not touch messages: engines fail, leave, are shut down or are destroyed.
std::function<void(World&)> randomSaboteur(Random& random);

}  // namespace hipress::stress
