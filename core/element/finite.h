// SPDX-License-Identifier: Apache-2.0
//
// Finds NaN and infinities among elements.
#pragma once

#include <cstddef>

#include "core/element/dtype.h"

namespace hipress {

/// Whether none of `count` elements, at any address, is NaN or infinite. Integers are always finite. Reads no
/// further than the first piece with such a value.
bool allFinite(const void* values, DType dtype, size_t count);

}  // namespace hipress
