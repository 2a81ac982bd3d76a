// SPDX-License-Identifier: Apache-2.0
#include "core/casync/graph/spec_text.h"

#include <charconv>
#include <cstdio>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace hipress {
namespace {

/// Each part has its length before it, because names may have any character.
void append(std::string& text, std::string_view part) {
  text += std::to_string(part.size());
  text += ':';
  text += part;
}

class Parts {
 public:
  explicit Parts(std::string_view text) : rest_(text) {}

  std::string text() {
    size_t length = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), length);
    const auto digits = static_cast<size_t>(end - rest_.data());
    if (error != std::errc{} || digits >= rest_.size() || rest_[digits] != ':' ||
        length > rest_.size() - digits - 1)
      throw corruptPayload("a tensor's specification is damaged");
    std::string part(rest_.substr(digits + 1, length));
    rest_.remove_prefix(digits + 1 + length);
    return part;
  }

  template <typename T>
  T number() {
    const std::string part = text();
    T value{};
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size())
      throw corruptPayload("a tensor's specification has '" + part + "' in place of a number");
    return value;
  }

 private:
  std::string_view rest_;
};

std::string exact(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

std::string textOfSpec(const TensorSpec& spec) {
  const AllreduceOptions& how = *spec.allreduce();
  std::string text;
  for (const std::string& part :
       {spec.name, spec.lastingName, std::to_string(static_cast<int>(spec.dtype)), std::to_string(spec.count),
        spec.shape, std::to_string(spec.priority), std::to_string(static_cast<int>(how.reduction)),
        exact(how.prescale), exact(how.postscale), how.codec, how.topology, std::to_string(how.partitions),
        std::to_string(how.minCompressBytes), std::to_string(how.greatest),
        std::to_string(spec.among.size())})
    append(text, part);
  for (const int rank : spec.among) append(text, std::to_string(rank));
  return text;
}

TensorSpec specOfText(const std::string& text) {
  Parts parts(text);
  TensorSpec spec;
  AllreduceOptions how;
  spec.name = parts.text();
  spec.lastingName = parts.text();
  spec.dtype = static_cast<DType>(parts.number<int>());
  spec.count = parts.number<uint64_t>();
  spec.shape = parts.text();
  spec.priority = parts.number<int>();
  const int reduction = parts.number<int>();
  if (reduction < 0 || reduction > static_cast<int>(Reduction::kProduct))
    throw corruptPayload("a tensor's specification has an unknown reduction");
  how.reduction = static_cast<Reduction>(reduction);
  how.prescale = parts.number<double>();
  how.postscale = parts.number<double>();
  how.codec = parts.text();
  how.topology = parts.text();
  how.partitions = parts.number<int>();
  how.minCompressBytes = parts.number<uint64_t>();
  how.greatest = parts.number<int64_t>();
  for (auto ranks = parts.number<size_t>(); ranks > 0; --ranks) spec.among.push_back(parts.number<int>());
  spec.transient = true;
  spec.options = std::move(how);
  return spec;
}

}  // namespace hipress
