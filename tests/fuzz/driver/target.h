// SPDX-License-Identifier: Apache-2.0
//
// The function that a fuzzer calls again and again. One executable has one target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hipress::fuzz {

using Input = std::vector<uint8_t>;

struct Seed {
  std::string name;  ///< The name of the seed's file, without its directory.
  Input input;
};

/// Inputs to start from, besides the inputs in files.
std::vector<Seed> targetSeeds();

/// Accepts any bytes. An error ends the process: a sanitizer's report, a failed CHECK, an escaped exception.
void runTarget(std::span<const uint8_t> input);

}  // namespace hipress::fuzz
