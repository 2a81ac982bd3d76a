// SPDX-License-Identifier: Apache-2.0
//
// What a fuzzer calls again and again. One executable has one target.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hipress::fuzz {

using Input = std::vector<uint8_t>;

struct Seed {
  std::string name;  ///< Of its file, without directory.
  Input input;
};

/// Inputs to start from, besides those in files.
std::vector<Seed> targetSeeds();

/// Any bytes must do. What is wrong ends the process: a sanitizer's report, CHECK, an exception that escapes.
void runTarget(std::span<const uint8_t> input);

}  // namespace hipress::fuzz
