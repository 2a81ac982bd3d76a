// SPDX-License-Identifier: Apache-2.0
#include "core/control/roster.h"

#include <algorithm>
#include <cstdio>

namespace hipress::control {

std::string rankList(const std::vector<int>& ranks) {
  constexpr size_t kShown = 8;
  const bool cut = ranks.size() > kShown + 1;
  const size_t shown = cut ? kShown : ranks.size();
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0) text += !cut && i + 1 == shown ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  if (cut) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

std::string seconds(int64_t milliseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(milliseconds) / 1000.0);
  return text;
}

}  // namespace hipress::control
