// SPDX-License-Identifier: Apache-2.0
//
// A new input from old ones.
#pragma once

#include "tests/core/stress/world/random.h"
#include "tests/fuzz/driver/target.h"

namespace hipress::fuzz {

using stress::Random;

constexpr size_t kMaxInputBytes = 1 << 14;

/// Changes `input` in one to eight ways; `other` lends it pieces. Uses what comparison() has of the last run.
void mutate(Input& input, const Input& other, Random& random);

}  // namespace hipress::fuzz
