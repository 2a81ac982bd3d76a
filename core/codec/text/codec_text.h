// SPDX-License-Identifier: Apache-2.0
//
// Parses the text that a user writes for a codec: `name` or `name(option=value, ...)`. The parser knows no
// codec: the registry and the codecs give names and values their meaning.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

namespace hipress {

struct CodecText {
  std::string name;
  std::map<std::string, std::string> options;
};

/// Throws InvalidArgument with the text and the mistake in it.
CodecText parseCodecText(std::string_view text);

/// The candidate with the fewest edits from `word`, ignoring case; empty if none is close.
std::string closestTo(std::string_view word, std::span<const std::string> candidates);

}  // namespace hipress
