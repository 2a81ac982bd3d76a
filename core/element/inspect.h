// SPDX-License-Identifier: Apache-2.0
//
// Questions about the values of a tensor or a part of it.
#pragma once

#include <cstddef>
#include <span>

#include "core/element/dtype.h"

namespace hipress {

/// Whether all bits are 0. Reads no further than the first piece with another bit.
bool areZeros(std::span<const std::byte> bytes);

/// Whether no value is NaN or infinite; true for types that have no such values. `values` may have any
/// address.
bool areFinite(const void* values, DType dtype, size_t count);

}  // namespace hipress
