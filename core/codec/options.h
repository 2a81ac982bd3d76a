// SPDX-License-Identifier: Apache-2.0
//
// A codec's options, as its factory reads them: every value present, given or default, already known to be an
// option of that codec. Values are read here so that all codecs refuse a wrong one in the same words.
#pragma once

#include <map>
#include <string>
#include <utility>

namespace hipress {

class CodecOptions {
 public:
  CodecOptions(std::string codec, std::map<std::string, std::string> values)
      : codec_(std::move(codec)), values_(std::move(values)) {}

  /// Throws InvalidArgument unless the value is `true` or `false`.
  bool boolean(const std::string& option) const;

 private:
  std::string codec_;
  std::map<std::string, std::string> values_;
};

}  // namespace hipress
