// SPDX-License-Identifier: Apache-2.0
//
// Finds values other than zero among elements.
#pragma once

#include <cstddef>
#include <span>

namespace hipress {

/// Whether all bits are 0. Reads no further than the first piece with another bit.
bool areZeros(std::span<const std::byte> bytes);

}  // namespace hipress
