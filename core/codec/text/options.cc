// SPDX-License-Identifier: Apache-2.0
#include "core/codec/text/options.h"

#include <charconv>
#include <cmath>
#include <system_error>

#include "core/base/error.h"

namespace hipress {
namespace {

/// Parses the whole text as a T. Returns false if the text is no T or does not fit.
template <typename T>
bool parse(const std::string& text, T& value) {
  const char* end = text.data() + text.size();
  const auto [position, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && position == end;
}

[[noreturn]] void refuse(const std::string& codec, const std::string& option, const std::string& value,
                         const std::string& reason) {
  throw invalidArgument("codec " + codec + ": option " + option + " is '" + value + "', " + reason);
}

}  // namespace

const std::string& CodecOptions::text(const std::string& option) const {
  return values_.at(option);
}

bool CodecOptions::boolean(const std::string& option) const {
  const std::string& value = text(option);
  if (value == "true") return true;
  if (value == "false") return false;
  refuse(codec_, option, value, "must be true or false");
}

int64_t CodecOptions::integer(const std::string& option) const {
  int64_t value = 0;
  if (!parse(text(option), value)) refuse(codec_, option, text(option), "which is not an integer");
  return value;
}

double CodecOptions::number(const std::string& option) const {
  double value = 0;
  if (!parse(text(option), value) || std::isnan(value)) {
    refuse(codec_, option, text(option), "which is not a number");
  }
  return value;
}

}  // namespace hipress
