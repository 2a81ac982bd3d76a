// SPDX-License-Identifier: Apache-2.0
//
// Codecs whose encoded values are summed over all ranks without decoding. All ranks agree on statistics of
// their values first, the greatest magnitude of each block for example; each encodes with these, so that one
// level means the same on all ranks; the levels are added as integers, and the sum is decoded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/codec/codec.h"

namespace hipress {

/// How ranks combine their statistics.
enum class StatisticsReduction : uint8_t { kMax, kMin, kSum };

/// A message is statistics, which are floats, and one level of int8 for each element. The codec's decode()
/// reads a message with the sum of all ranks' levels in place of one rank's.
class SummedEncoding {
 public:
  virtual ~SummedEncoding() = default;

  virtual StatisticsReduction reduction() const = 0;
  /// No level is greater in magnitude: at least 1.
  virtual int64_t mostLevel() const = 0;
  /// The most ranks whose levels have a sum that fits.
  int64_t mostRanks() const { return std::numeric_limits<int8_t>::max() / mostLevel(); }

  /// Bytes of the statistics of so many elements.
  virtual size_t statisticsBytes(size_t count) const = 0;
  /// Writes the statistics of scale·input, which has one element at least. Reads states and writes none.
  /// Returns the number of bytes; 0: scale·input is not finite.
  virtual size_t statistics(std::span<const float> input, const EncodeStates& states,
                            const EncodeContext& context, Bytes output) const = 0;
  /// As Codec::encode(), with these statistics in place of the input's own. They are in the message, too.
  virtual size_t encodeAgreed(std::span<const float> input, ConstBytes agreed, const EncodeStates& states,
                              const EncodeContext& context, Bytes output) const = 0;
};

}  // namespace hipress
