// SPDX-License-Identifier: Apache-2.0
//
// From a text to a configured codec: "onebit", "onebit(error_feedback=false)". Knows the built-in codecs and
// those that were loaded. All functions are thread-safe.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/codec/codec.h"
#include "core/codec/text/options.h"

namespace hipress {

/// One option of a codec, for messages and documentation.
struct CodecOption {
  std::string name;
  std::string defaultValue;  ///< Empty: the option must be given.
  std::string meaning;       ///< One sentence, with the range.
};

struct CodecDescription {
  std::string name;
  CodecId id = 0;
  std::string summary;  ///< One sentence.
  std::vector<CodecOption> options{};
  std::vector<std::string> states{};  ///< That the codec can keep; its options may say that it keeps none.
  bool encodes = true;                ///< Whether it has an encoding; see Codec::lowRank().
};

/// Makes a codec of the values of all its options. Throws InvalidArgument.
using CreateCodec = std::function<CodecPointer(const CodecOptions&)>;

/// One of a list of codecs compiled into libhipress.
struct BuiltinCodec {
  CodecDescription (*describe)() = nullptr;
  CodecPointer (*create)(const CodecOptions&) = nullptr;
  const char* fingerprint = "";
};

/// Parses `name` or `name(option=value, ...)`. Throws InvalidArgument that says which names, or which options
/// of that codec, exist.
CodecPointer createCodec(std::string_view text);

/// All codecs createCodec() knows, sorted by name: those that encode, or the others.
std::vector<CodecDescription> describeCodecs(bool encode = true);

/// Adds a codec. With a fingerprint that the codec of that name has already: does nothing. Throws
/// InvalidArgument if another codec has its name or number.
void registerCodec(CodecDescription description, CreateCodec create, std::string fingerprint = "");

/// Adds the codec of a shared library (see plugin.h), which is never unloaded, and returns its name. Throws
/// InvalidArgument if the file cannot be loaded, is not a codec or is one for another version, and as
/// registerCodec().
std::string loadCodecLibrary(const std::string& path);

}  // namespace hipress
