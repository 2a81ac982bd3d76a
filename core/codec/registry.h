// SPDX-License-Identifier: Apache-2.0
//
// From a text to a configured codec: "onebit", "onebit(error_feedback=false)". The one place that lists
// codecs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"

namespace hipress {

/// One option of a codec, for messages and documentation.
struct CodecOption {
  std::string name;
  std::string defaultValue;
  std::string meaning;  ///< One sentence, with the range.
};

struct CodecDescription {
  std::string name;
  std::string summary;  ///< One sentence.
  std::vector<CodecOption> options;
};

/// Parses `name` or `name(option=value, ...)`. Throws InvalidArgument that says which names, or which options
/// of that codec, exist.
CodecPointer createCodec(std::string_view text);

/// All codecs createCodec() knows, sorted by name.
std::vector<CodecDescription> describeCodecs();

}  // namespace hipress
