// SPDX-License-Identifier: Apache-2.0
//
// The ranks among which an operation runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hipress {

/// Ranks in rising order, each once; empty: all ranks of the job. A rank's position in it is its number among
/// the ranks of the operation.
using ProcessSet = std::vector<int>;

/// The number of its ranks.
inline int sizeOf(const ProcessSet& among, int worldSize) {
  return among.empty() ? worldSize : static_cast<int>(among.size());
}

/// The position of a rank; -1: the rank is not in the set.
inline int positionOf(const ProcessSet& among, int rank) {
  if (among.empty()) return rank;
  const auto found = std::lower_bound(among.begin(), among.end(), rank);
  return found == among.end() || *found != rank ? -1 : static_cast<int>(found - among.begin());
}

inline int rankAt(const ProcessSet& among, size_t position) {
  return among.empty() ? static_cast<int>(position) : among[position];
}

/// "ranks 0-3 and 8": every rank, in few words.
inline std::string textOf(const ProcessSet& among) {
  if (among.empty()) return "all ranks";
  std::vector<std::string> runs;
  for (size_t first = 0, last = 0; first < among.size(); first = last + 1) {
    for (last = first; last + 1 < among.size() && among[last + 1] == among[last] + 1;) ++last;
    runs.push_back(std::to_string(among[first]) + (last > first ? "-" + std::to_string(among[last]) : ""));
  }
  std::string text = among.size() == 1 ? "rank " : "ranks ";
  for (size_t run = 0; run < runs.size(); ++run)
    text += (run == 0 ? "" : run + 1 == runs.size() ? " and " : ", ") + runs[run];
  return text;
}

/// Throws InvalidArgument unless the ranks are in rising order, of the job, and `rank` is one of them.
inline void checkProcessSet(const ProcessSet& among, int rank, int worldSize) {
  for (size_t at = 0; at < among.size(); ++at) {
    if (among[at] < 0 || among[at] >= worldSize || (at > 0 && among[at] <= among[at - 1]))
      throw invalidArgument("a process set has ranks of 0.." + std::to_string(worldSize - 1) +
                            " in rising order, each once; it is of " + textOf(among));
  }
  if (positionOf(among, rank) < 0)
    throw invalidArgument("rank " + std::to_string(rank) + " is not in the process set of " + textOf(among) +
                          "; only these ranks call its operations");
}

}  // namespace hipress
