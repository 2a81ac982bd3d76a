// SPDX-License-Identifier: Apache-2.0
//
// A mistake made on purpose, for a fuzzer to find.
#pragma once

#include <cstdint>
#include <span>

namespace hipress::fuzz {

/// Reads past the end of an array if two bytes far from each other have the right values.
int plantedBug(std::span<const uint8_t> input);

}  // namespace hipress::fuzz
