// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/element/multiversion.h"

namespace hipress::fuzz {

/// The level that is nearest to `choice` and has code here. The tree of the short runs has code for one level
/// alone, as a loaded codec has, so only `make fuzz` compares levels.
inline IsaLevel compiledLevel([[maybe_unused]] IsaLevel choice) {
#ifdef HIPRESS_COMPILED_LEVEL
  return static_cast<IsaLevel>(HIPRESS_COMPILED_LEVEL);
#else
  return std::min(choice, bestIsaLevel());
#endif
}

}  // namespace hipress::fuzz
