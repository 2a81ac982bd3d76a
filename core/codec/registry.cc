// SPDX-License-Identifier: Apache-2.0
#include "core/codec/registry.h"

#include <algorithm>
#include <array>
#include <span>

#include "core/codec/codec_text.h"
#include "core/codec/fp16.h"
#include "core/codec/none.h"
#include "core/codec/onebit.h"
#include "core/codec/options.h"
#include "core/error.h"

namespace hipress {
namespace {

struct Builtin {
  CodecDescription description;
  CodecPointer (*create)(const CodecOptions&);
};

/// Sorted by name.
const std::array<Builtin, 3>& builtins() {
  static const std::array<Builtin, 3> all = {{
      {describeFp16(), createFp16},
      {describeNone(), createNone},
      {describeOnebit(), createOnebit},
  }};
  return all;
}

std::string joined(std::span<const std::string> names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string suggestion(const std::string& word, std::span<const std::string> names) {
  const std::string close = closestTo(word, names);
  return close.empty() ? "" : "; did you mean " + close + "?";
}

const Builtin& find(const std::string& name) {
  std::vector<std::string> names;
  for (const Builtin& builtin : builtins()) {
    if (builtin.description.name == name) return builtin;
    names.push_back(builtin.description.name);
  }
  throw invalidArgument("codec '" + name + "' does not exist; the codecs are " + joined(names) +
                        suggestion(name, names));
}

}  // namespace

CodecPointer createCodec(std::string_view text) {
  const CodecText parsed = parseCodecText(text);
  const Builtin& builtin = find(parsed.name);
  std::map<std::string, std::string> values;
  std::vector<std::string> names;
  for (const CodecOption& option : builtin.description.options) {
    values.emplace(option.name, option.defaultValue);
    names.push_back(option.name);
  }
  for (const auto& [name, value] : parsed.options) {
    const auto position = values.find(name);
    if (position == values.end()) {
      throw invalidArgument("codec " + parsed.name + " has no option '" + name + "'; " +
                            (names.empty() ? "it has none" : "its options are " + joined(names)) +
                            suggestion(name, names));
    }
    position->second = value;
  }
  return builtin.create(CodecOptions(parsed.name, std::move(values)));
}

std::vector<CodecDescription> describeCodecs() {
  std::vector<CodecDescription> descriptions;
  for (const Builtin& builtin : builtins()) descriptions.push_back(builtin.description);
  return descriptions;
}

}  // namespace hipress
