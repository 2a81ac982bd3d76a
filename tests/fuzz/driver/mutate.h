// SPDX-License-Identifier: Apache-2.0
//
// Makes a new input from old inputs.
#pragma once

#include "tests/core/stress/world/random.h"
#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

using stress::Random;

constexpr size_t kMaxInputBytes = 1 << 14;

/// Changes `input` in one to eight ways; `other` gives pieces. Uses the comparisons of the last run.
void mutate(Input& input, const Input& other, Random& random);

}  // namespace hipress::fuzz
