// SPDX-License-Identifier: Apache-2.0
//
// The names of the classes in hipress.errors, under which other languages know the errors.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace hipress {

/// In the order of ErrorKind.
inline constexpr std::array<const char*, 10> kErrorNames{
    "InvalidArgument", "Unsupported", "DuplicateName",  "NotInitialized", "Mismatch",
    "Timeout",         "PeerLost",    "CorruptPayload", "TransportError", "Refused"};

inline const char* errorName(ErrorKind kind) {
  return kErrorNames.at(static_cast<size_t>(kind) - 1);
}

/// nullopt: no error has this name.
inline std::optional<ErrorKind> errorKindOf(const std::string& name) {
  for (size_t index = 0; index < kErrorNames.size(); ++index) {
    if (name == kErrorNames[index]) return static_cast<ErrorKind>(index + 1);
  }
  return std::nullopt;
}

}  // namespace hipress
