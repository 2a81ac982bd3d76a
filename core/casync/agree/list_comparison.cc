// SPDX-License-Identifier: Apache-2.0
#include "core/casync/agree/list_comparison.h"

#include <algorithm>
#include <sstream>

namespace hipress {
namespace {

constexpr char kSeparator = '\t';

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string readable(const std::string& line) {
  const size_t split = line.find(kSeparator);
  return "'" + line.substr(0, split) + "' (" + line.substr(split + 1) + ")";
}

}  // namespace

std::string listAsText(const std::vector<TensorSpec>& specs) {
  std::string text;
  for (const auto& spec : specs) {
    std::string name = spec.name;
    std::replace(name.begin(), name.end(), '\n', ' ');
    text += name + kSeparator + spec.describe() + '\n';
  }
  return text;
}

std::string firstDifference(const std::string& ofFirst, const std::string& ofOther, int first, int other) {
  const auto ours = linesOf(ofFirst);
  const auto theirs = linesOf(ofOther);
  const std::string one = "rank " + std::to_string(first);
  const std::string rank = "rank " + std::to_string(other);
  const std::string advice =
      ". All ranks must build the same model, in the same order, with the same options";
  for (size_t index = 0; index < std::max(ours.size(), theirs.size()); ++index) {
    const std::string at = "tensor number " + std::to_string(index) + ": ";
    if (index >= ours.size())
      return at + rank + " has " + readable(theirs[index]) + ", " + one + " has no more tensors" + advice;
    if (index >= theirs.size())
      return at + one + " has " + readable(ours[index]) + ", " + rank + " has no more tensors" + advice;
    if (ours[index] != theirs[index]) {
      return at + one + " has " + readable(ours[index]) + ", " + rank + " has " + readable(theirs[index]) +
             advice;
    }
  }
  return "no difference";
}

}  // namespace hipress
