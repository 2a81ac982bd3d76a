// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/parts.h"

#include <cstddef>
#include <cstdint>

namespace hipress::control {
namespace {

constexpr size_t kLength = 4;

}  // namespace

void appendPart(std::string& joined, std::string_view part) {
  for (size_t byte = 0; byte < kLength; ++byte)
    joined.push_back(static_cast<char>(part.size() >> (8 * byte)));
  joined.append(part);
}

std::string joinParts(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) appendPart(joined, part);
  return joined;
}

std::optional<std::vector<std::string_view>> splitParts(std::string_view joined, size_t count) {
  std::vector<std::string_view> parts;
  while (!joined.empty()) {
    if (joined.size() < kLength || parts.size() == count) return std::nullopt;
    size_t length = 0;
    for (size_t byte = 0; byte < kLength; ++byte)
      length |= static_cast<size_t>(static_cast<uint8_t>(joined[byte])) << (8 * byte);
    joined.remove_prefix(kLength);
    if (joined.size() < length) return std::nullopt;
    parts.push_back(joined.substr(0, length));
    joined.remove_prefix(length);
  }
  if (parts.size() != count) return std::nullopt;
  return parts;
}

}  // namespace hipress::control
