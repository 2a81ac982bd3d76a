// SPDX-License-Identifier: Apache-2.0
//
// The texts of an all-to-all as one value: each has a u32 length, little endian, before its bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hipress::control {

std::string joinParts(const std::vector<std::string>& parts);
void appendPart(std::string& joined, std::string_view part);

/// The parts, as views into `joined`; nothing unless there are exactly `count`.
std::optional<std::vector<std::string_view>> splitParts(std::string_view joined, size_t count);

}  // namespace hipress::control
