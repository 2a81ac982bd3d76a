// SPDX-License-Identifier: Apache-2.0
#include "core/codec/builtin/powersgd.h"

#include <array>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"

namespace hipress {
namespace {

constexpr int64_t kLargestRank = 32;

[[noreturn]] void refuse() {
  throw unsupported(
      "codec powersgd has no encoding: it sums two factors of a matrix over all ranks, one after the other; "
      "use "
      "it for the tensors of an optimizer or a collective, or another codec here");
}

class PowerSgd final : public Codec {
 public:
  PowerSgd(std::string signature, const LowRank& lowRank)
      : signature_(std::move(signature)), lowRank_(lowRank) {
    if (lowRank.errorFeedback) states_.push_back({"residual"});
    if (lowRank.warmStart) states_.push_back({"factor"});
  }

  std::string_view name() const override { return "powersgd"; }
  std::string signature() const override { return signature_; }
  CodecId id() const override { return 2; }
  std::span<const CodecState> states() const override { return states_; }
  const LowRank* lowRank() const override { return &lowRank_; }
  size_t maxEncodedBytes(size_t) const override { refuse(); }
  size_t encode(std::span<const float>, const EncodeStates&, const EncodeContext&, Bytes) const override {
    refuse();
  }

 protected:
  void decodePayload(ConstBytes, std::span<float>, DecodeMode, Parallel*) const override { refuse(); }

 private:
  const std::string signature_;
  const LowRank lowRank_;
  std::vector<CodecState> states_;
};

}  // namespace

CodecDescription describePowerSgd() {
  CodecDescription description;
  description.name = "powersgd";
  description.id = 2;
  description.summary = "A matrix as the product of two low-rank factors, summed one after the other.";
  description.options = {
      {"rank", "1", "Vectors of each factor, 1 to 32; fewer if the matrix has fewer rows or columns."},
      {"min_ratio", "2",
       "Above 0. A matrix of n rows and m columns travels uncompressed if rank · (n + m) · min_ratio exceeds "
       "n · m."},
      {"error_feedback", "true",
       "Whether the residual (matrix minus product) is added to the next gradient."},
      {"warm_start", "true", "Whether a step begins with the last step's right factor."},
  };
  description.states = {{"residual"}, {"factor"}};
  description.encodes = false;
  return description;
}

CodecPointer createPowerSgd(const CodecOptions& options) {
  const int64_t rank = options.integer("rank");
  if (rank < 1 || rank > kLargestRank) {
    throw invalidArgument("codec powersgd: rank must be from 1 to " + std::to_string(kLargestRank) +
                          ", not " + options.text("rank"));
  }
  const double ratio = options.number("min_ratio");
  if (!(ratio > 0.0) || ratio == std::numeric_limits<double>::infinity())
    throw invalidArgument("codec powersgd: min_ratio must be above 0 and finite, not " +
                          options.text("min_ratio"));
  const LowRank lowRank{static_cast<size_t>(rank), ratio, options.boolean("error_feedback"),
                        options.boolean("warm_start")};
  const auto word = [](bool value) { return value ? "true" : "false"; };
  std::array<char, 32> number{};
  std::snprintf(number.data(), number.size(), "%.17g", ratio);
  std::string signature = "powersgd(rank=" + std::to_string(rank) + ", min_ratio=" + number.data() +
                          ", error_feedback=" + word(lowRank.errorFeedback) +
                          ", warm_start=" + word(lowRank.warmStart) + ")";
  return std::make_shared<const PowerSgd>(std::move(signature), lowRank);
}

}  // namespace hipress
