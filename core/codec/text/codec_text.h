// SPDX-License-Identifier: Apache-2.0
//
// The text a user writes for a codec, `name` or `name(option=value, ...)`, taken apart. Knows no codec; the
// meaning of names and values is the registry's and the codecs'.
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

/// Throws InvalidArgument that quotes the text and says what is wrong with it.
CodecText parseCodecText(std::string_view text);

/// The candidate that differs from `word` by the fewest edits, ignoring case; empty if none is close.
std::string closestTo(std::string_view word, std::span<const std::string> candidates);

}  // namespace hipress
