// SPDX-License-Identifier: Apache-2.0
//
// A codec's options as its factory reads them. Every option has a value, given or default, and the registry
// has checked the names. This class parses values, so that all codecs reject a wrong one with the same words;
// each codec checks the ranges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace hipress {

class CodecOptions {
 public:
  CodecOptions(std::string codec, std::map<std::string, std::string> values)
      : codec_(std::move(codec)), values_(std::move(values)) {}

  const std::string& codec() const { return codec_; }

  /// Each function throws InvalidArgument, with the value, if the value is not of the wanted kind.
  const std::string& text(const std::string& option) const;  ///< The text that the user wrote.
  bool boolean(const std::string& option) const;             ///< `true` or `false`.
  int64_t integer(const std::string& option) const;          ///< Decimal: `-12`.
  double number(const std::string& option) const;            ///< `0.01`, `1e-3`, `inf`; not `nan`.

 private:
  std::string codec_;
  std::map<std::string, std::string> values_;
};

}  // namespace hipress
