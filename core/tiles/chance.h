// SPDX-License-Identifier: Apache-2.0
//
// Binary decisions as bytes: an arithmetic coder of 32 bits whose probabilities adapt to earlier decisions.
// It computes with whole numbers only, so sender and receiver agree on every processor. docs/wire-format.md
// has the same rules.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hipress {

/// How probable a one is: at first as given, later about the mean of the decisions, of recent ones more.
class Chance {
 public:
  explicit Chance(uint32_t ofOne) : ofOne_(ofOne) {}

  /// From 1 to 65,535, in units of 2^-16.
  uint32_t share() const { return std::clamp<uint32_t>(ofOne_ >> (kBits - 16), 1, 65535); }

  void learn(bool bit) {
    const int64_t target = bit ? int64_t{1} << kBits : 0;
    ofOne_ = static_cast<uint32_t>(ofOne_ + (((target - ofOne_) * kRates[seen_]) >> 16));
    if (seen_ + 1 < kRates.size()) ++seen_;
  }

  static constexpr int kBits = 22;

 private:
  /// 1 / (n + 1.6) in units of 2^-16, rounded down.
  static constexpr std::array<int64_t, 1024> kRates = [] {
    std::array<int64_t, 1024> rates{};
    for (size_t n = 0; n < rates.size(); ++n) rates[n] = 65536 * 10 / static_cast<int64_t>(10 * n + 16);
    return rates;
  }();

  uint32_t ofOne_;     ///< In units of 2^-22.
  uint32_t seen_ = 0;  ///< Decisions so far, up to 1,023.
};

class ChanceEncoder {
 public:
  static constexpr bool kDecodes = false;

  bool bit(Chance& chance, bool bit) {
    const uint32_t middle = low_ + static_cast<uint32_t>((uint64_t{high_ - low_} * chance.share()) >> 16);
    (bit ? high_ : low_) = bit ? middle : middle + 1;
    while (((low_ ^ high_) & 0xff000000) == 0) {
      bytes_.push_back(static_cast<std::byte>(high_ >> 24));
      low_ <<= 8;
      high_ = high_ << 8 | 0xff;
    }
    chance.learn(bit);
    return bit;
  }

  /// All bytes. Readers take zeros for the bytes behind the last one.
  std::vector<std::byte> finish() {
    bytes_.push_back(static_cast<std::byte>(high_ >> 24));
    return std::move(bytes_);
  }

 private:
  uint32_t low_ = 0;
  uint32_t high_ = 0xffffffff;
  std::vector<std::byte> bytes_;
};

class ChanceDecoder {
 public:
  static constexpr bool kDecodes = true;

  explicit ChanceDecoder(std::span<const std::byte> bytes) : bytes_(bytes) {
    for (int i = 0; i < 4; ++i) value_ = value_ << 8 | next();
  }

  /// The second argument is the encoder's.
  bool bit(Chance& chance, bool) {
    const uint32_t middle = low_ + static_cast<uint32_t>((uint64_t{high_ - low_} * chance.share()) >> 16);
    const bool bit = value_ <= middle;
    (bit ? high_ : low_) = bit ? middle : middle + 1;
    while (((low_ ^ high_) & 0xff000000) == 0) {
      low_ <<= 8;
      high_ = high_ << 8 | 0xff;
      value_ = value_ << 8 | next();
    }
    chance.learn(bit);
    return bit;
  }

  /// The number of bytes of an encoder that has coded the same decisions.
  size_t encodedBytes() const { return read_ - 3; }

 private:
  uint32_t next() {
    const size_t at = read_++;
    return at < bytes_.size() ? static_cast<uint32_t>(bytes_[at]) : 0;
  }

  std::span<const std::byte> bytes_;
  size_t read_ = 0;
  uint32_t low_ = 0;
  uint32_t high_ = 0xffffffff;
  uint32_t value_ = 0;
};

}  // namespace hipress
