// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/ops/cpu/indices.h"

namespace hipress::ops {

/// The fault of indices into a vector of `size` elements; empty if there is none. With `increasing` they must
/// increase: with the same index twice, the result would depend on the order of the writes.
inline std::string indexFault(const int32_t* indices, size_t count, size_t size, bool increasing) {
  const size_t outside = firstOutside<IsaLevel::kGeneric>(indices, count, size);
  if (outside != count)
    return "index " + std::to_string(indices[outside]) + " in a vector of " + std::to_string(size) +
           " elements";
  const size_t falls = increasing ? firstFalling<IsaLevel::kGeneric>(indices, count) : count;
  if (falls == count) return {};
  return "index " + std::to_string(indices[falls + 1]) + " follows " + std::to_string(indices[falls]) +
         "; indices must increase";
}

}  // namespace hipress::ops
