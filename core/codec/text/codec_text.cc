// SPDX-License-Identifier: Apache-2.0
#include "core/codec/text/codec_text.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "core/base/error.h"

namespace hipress {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string inQuotes(std::string_view text) {
  return std::string("'").append(text).append("'");
}

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw invalidArgument("codec " + inQuotes(text) + ": " + reason +
                        "; write name or name(option=value, ...), for example onebit(error_feedback=true)");
}

bool isWord(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '+' || c == '.';
  });
}

void parseOption(std::string_view text, std::string_view option, CodecText& result) {
  const size_t equals = option.find('=');
  if (equals == std::string_view::npos) {
    refuse(text, option.empty() ? "an option is empty" : "option " + inQuotes(option) + " has no '=value'");
  }
  const std::string_view name = trim(option.substr(0, equals));
  const std::string_view value = trim(option.substr(equals + 1));
  if (!isWord(name)) refuse(text, inQuotes(name) + " is not an option name");
  if (!isWord(value)) refuse(text, inQuotes(value) + " is not a value for option " + inQuotes(name));
  if (!result.options.emplace(name, value).second)
    refuse(text, "option " + inQuotes(name) + " is given twice");
}

size_t editDistance(std::string_view left, std::string_view right) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<size_t> row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < left.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < right.size(); ++j) {
      const size_t replaced = diagonal + (lower(left[i]) == lower(right[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

CodecText parseCodecText(std::string_view text) {
  const std::string_view whole = trim(text);
  if (whole.empty()) refuse(text, "the text is empty");
  const size_t open = whole.find('(');
  CodecText result;
  result.name = trim(whole.substr(0, open));
  if (!isWord(result.name)) refuse(text, inQuotes(result.name) + " is not a codec name");
  if (open == std::string_view::npos) return result;
  const size_t close = whole.find(')', open);
  if (close == std::string_view::npos) refuse(text, "the ')' is missing");
  if (close + 1 != whole.size()) refuse(text, inQuotes(whole.substr(close + 1)) + " after the ')'");
  std::string_view options = trim(whole.substr(open + 1, close - open - 1));
  if (options.empty()) return result;
  for (;;) {
    const size_t comma = options.find(',');
    parseOption(text, trim(options.substr(0, comma)), result);
    if (comma == std::string_view::npos) return result;
    options.remove_prefix(comma + 1);
  }
}

std::string closestTo(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  size_t bestDistance = std::max<size_t>(word.size() / 2, 1) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = editDistance(word, candidate);
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

}  // namespace hipress
