// SPDX-License-Identifier: Apache-2.0
//
// A deliberate bug that the fuzzer must find.
#pragma once

#include <cstdint>
#include <span>

namespace hipress::fuzz {

/// Reads past the end of an array if two distant bytes have the right values.
int plantedBug(std::span<const uint8_t> input);

}  // namespace hipress::fuzz
