// SPDX-License-Identifier: Apache-2.0
//
// A codec's options, as its factory reads them: every value present, given or default, already known to be an
// option of that codec. Values are read here so that all codecs refuse a wrong one in the same words; ranges
// are checked by the codec.
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

  /// Each throws InvalidArgument that quotes the value if it is not what is asked for.
  const std::string& text(const std::string& option) const;  ///< As it was written.
  bool boolean(const std::string& option) const;             ///< `true` or `false`.
  int64_t integer(const std::string& option) const;          ///< Decimal: `-12`.
  double number(const std::string& option) const;            ///< `0.01`, `1e-3`, `inf`; not `nan`.

 private:
  std::string codec_;
  std::map<std::string, std::string> values_;
};

}  // namespace hipress
