// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/simulation/step_description.h"

namespace hipress {
namespace {

double slowdownOf(const std::vector<double>& slowdown, size_t busy) {
  if (slowdown.empty()) return 1.0;
  return slowdown[std::min(std::max<size_t>(busy, 1), slowdown.size()) - 1];
}

}  // namespace

double ComputeCosts::seconds(double rawBytes, size_t threads, size_t busy) const {
  if (byThreads.empty()) return 0.0;
  const size_t together = std::min(std::max<size_t>(threads, 1), byThreads.size());
  // A time measured with several threads includes the slowdown that they cause each other.
  const double crowded = slowdownOf(slowdown, std::max(busy, together)) / slowdownOf(slowdown, together);
  return byThreads[together - 1].at(rawBytes) * crowded;
}

}  // namespace hipress
