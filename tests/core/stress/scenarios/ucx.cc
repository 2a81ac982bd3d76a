// SPDX-License-Identifier: Apache-2.0
//
// The network and the control plane of real jobs, with the ranks as threads of one process.
#include <utility>

#include "tests/core/stress/scenarios/collectives.h"
#include "tests/core/stress/scenarios/failures.h"
#include "tests/core/stress/scenarios/scenarios.h"

namespace hipress::stress {

void stressUcx(Random& random) {
  const auto size = static_cast<int>(2 + random.below(3));
  World world = ucxWorld(size, randomOptions(random));
  runCollectives(random, world, randomWorkload(random, size, 10));
}

void stressUcxFailures(Random& random) {
  const auto size = static_cast<int>(2 + random.below(3));
  EngineOptions options = randomOptions(random);
  options.timeout = Milliseconds(3000);
  World world = ucxWorld(size, options);
  const auto server = std::move(world.server);  // the server outlives every engine
  runUntilFailure(random, std::move(world), randomSaboteur(random));
}

}  // namespace hipress::stress
