// SPDX-License-Identifier: Apache-2.0
//
// Runs the stress test's scenario of missing memory once. A failed expectation aborts with a message.
#include "tests/core/stress/scenarios/scenarios.h"

int main() {
  hipress::stress::Random random(1);
  hipress::stress::stressMemory(random);
  return 0;
}
