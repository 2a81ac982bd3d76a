// SPDX-License-Identifier: Apache-2.0
//
// Makes a configured codec from a text: "onebit", "onebit(error_feedback=false)". The registry has the
// built-in codecs and the loaded codecs. All functions are thread-safe.
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
  std::string defaultValue;  ///< Empty: the user must set the option.
  std::string meaning;       ///< One sentence, with the range.
};

struct CodecDescription {
  std::string name;
  CodecId id = 0;
  std::string summary;  ///< One sentence.
  std::vector<CodecOption> options{};
  std::vector<CodecState> states{};  ///< The states that it can have; options may turn them off.
  bool encodes = true;               ///< Whether it has an encoding; see Codec::lowRank().
};

/// Makes a codec from the values of all its options. Throws InvalidArgument.
using CreateCodec = std::function<CodecPointer(const CodecOptions&)>;

/// An entry of the list of codecs in libhipress.
struct BuiltinCodec {
  CodecDescription (*describe)() = nullptr;
  CodecPointer (*create)(const CodecOptions&) = nullptr;
  const char* fingerprint = "";
};

/// Parses `name` or `name(option=value, ...)`. Throws InvalidArgument with the names of all codecs, or of all
/// options of the codec.
CodecPointer createCodec(std::string_view text);

/// The codecs that createCodec() knows, sorted by name. `encode`: the codecs with an encoding, or the others.
std::vector<CodecDescription> describeCodecs(bool encode = true);

/// Adds a codec. Does nothing if the codec of that name has the same fingerprint. Throws InvalidArgument if
/// another codec has the name or the number.
void registerCodec(CodecDescription description, CreateCodec create, std::string fingerprint = "");

/// Adds the codec of a shared library (see plugin.h) and returns its name. The library is never unloaded.
/// Throws InvalidArgument if the file cannot be loaded, has no codec, or has a codec for another version of
/// HiPress, and the errors of registerCodec().
std::string loadCodecLibrary(const std::string& path);

}  // namespace hipress
