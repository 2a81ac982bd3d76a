// SPDX-License-Identifier: Apache-2.0
//
// A warning of a rank that goes on: one line on standard error. A rank that cannot go on raises an error.
#pragma once

#include <cstdio>
#include <string>

namespace hipress {

inline void warn(int rank, const std::string& sentence) {
  const std::string line = "hipress: rank " + std::to_string(rank) + ": " + sentence + "\n";
  std::fputs(line.c_str(), stderr);  // in one call: ranks share a terminal
}

}  // namespace hipress
