// SPDX-License-Identifier: Apache-2.0
#include "core/codec/registry.h"

#include <map>
#include <mutex>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/codec/builtin/fp16.h"
#include "core/codec/builtin/generated_builtins.h"
#include "core/codec/builtin/none.h"
#include "core/codec/builtin/powersgd.h"
#include "core/codec/text/codec_text.h"

namespace hipress {
namespace {

constexpr BuiltinCodec kHandWritten[] = {
    {describeFp16, createFp16},
    {describeNone, createNone},
    {describePowerSgd, createPowerSgd},
};

/// Partitions begin with a block of every state, and residuals move element by element.
void checkStates(const CodecDescription& description) {
  for (const CodecState& state : description.states) {
    const std::string what = "codec " + description.name + ": state '" + state.name +
                             "' has one value for each " + std::to_string(state.block) + " elements; ";
    if (state.block == 0 || kStateBlock % state.block != 0)
      throw invalidArgument(what + "the number must divide " + std::to_string(kStateBlock));
    if (state.name == "residual" && state.block != 1)
      throw invalidArgument(what + "a residual has one for each element, so give the state another name");
  }
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

struct Entry {
  CodecDescription description;
  CreateCodec create;
  std::string fingerprint;
};

class Registry {
 public:
  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  void add(Entry entry) {
    const std::lock_guard lock(mutex_);
    const CodecDescription& description = entry.description;
    const auto same = entries_.find(description.name);
    if (same != entries_.end()) {
      if (!entry.fingerprint.empty() && same->second.fingerprint == entry.fingerprint) return;
      throw invalidArgument(
          "codec " + description.name +
          " exists already and is another one; give one of the two another name, or start a "
          "new process to replace it");
    }
    for (const auto& [name, other] : entries_) {
      if (other.description.id == description.id) {
        throw invalidArgument("codec " + description.name + " has number " + std::to_string(description.id) +
                              ", which is codec " + name + "'s; give one of the two another name");
      }
    }
    std::string name = description.name;
    entries_.emplace(std::move(name), std::move(entry));
  }

  /// No entry changes or goes away, so the reference stays valid.
  const Entry& find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, entry] : entries_) names.push_back(known);
    throw invalidArgument("codec '" + name + "' does not exist; the codecs are " + joined(names) +
                          suggestion(name, names));
  }

  std::vector<CodecDescription> descriptions(bool encode) const {
    const std::lock_guard lock(mutex_);
    std::vector<CodecDescription> result;
    for (const auto& [name, entry] : entries_) {
      if (entry.description.encodes == encode) result.push_back(entry.description);
    }
    return result;
  }

 private:
  Registry() {
    addAll(kHandWritten);
    addAll(generated::builtins());
  }

  void addAll(std::span<const BuiltinCodec> codecs) {
    for (const BuiltinCodec& codec : codecs) add({codec.describe(), codec.create, codec.fingerprint});
  }

  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

}  // namespace

CodecPointer createCodec(std::string_view text) {
  const CodecText parsed = parseCodecText(text);
  const Entry& entry = Registry::instance().find(parsed.name);
  std::map<std::string, std::string> values;
  std::vector<std::string> names;
  for (const CodecOption& option : entry.description.options) {
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
  for (const auto& [name, value] : values) {
    if (value.empty()) {  // parseCodecText() lets no empty value through
      throw invalidArgument("codec " + parsed.name + ": option " + name + " has no default; write " +
                            parsed.name + "(" + name + "=...)");
    }
  }
  return entry.create(CodecOptions(parsed.name, std::move(values)));
}

std::vector<CodecDescription> describeCodecs(bool encode) {
  return Registry::instance().descriptions(encode);
}

void registerCodec(CodecDescription description, CreateCodec create, std::string fingerprint) {
  checkStates(description);
  Registry::instance().add({std::move(description), std::move(create), std::move(fingerprint)});
}

}  // namespace hipress
