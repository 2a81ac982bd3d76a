// SPDX-License-Identifier: Apache-2.0
//
// The warning of a rank that continues: one line on standard error. A rank that cannot throws an error.
#pragma once

#include <cstdio>
#include <string>

namespace hipress {

inline void warn(int rank, const std::string& sentence) {
  const std::string line = "hipress: rank " + std::to_string(rank) + ": " + sentence + "\n";
  std::fputs(line.c_str(), stderr);  // one call, because the ranks share a terminal
}

}  // namespace hipress
