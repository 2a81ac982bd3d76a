// SPDX-License-Identifier: Apache-2.0
//
// Records the numbers of a link's messages, so that no message is taken twice (as the anti-replay window of
// IPsec, RFC 4303 section 3.4.3). A transport may let messages overtake each other. A bit for each of the
// newest kWidth numbers shows which of them have come. Numbers that leave this window without having come are
// kept as ranges, and are nearly always none: so a message is taken however late it comes.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace hipress {

class ReplayWindow {
 public:
  static constexpr uint64_t kWidth = 4096;
  /// The most ranges of late numbers. A further one displaces the oldest, whose messages are then refused.
  static constexpr size_t kMostRanges = 4096;

  /// Returns whether the message with this number, 1 or more, comes for the first time. Throws
  /// std::bad_alloc.
  bool admit(uint64_t number) {
    if (number == 0) return false;
    if (isBehind(number)) return takeLate(number);
    if (number <= newest_) {
      if (seen_.test(number % kWidth)) return false;
    } else {
      advance(number);
    }
    seen_.set(number % kWidth);
    return true;
  }

 private:
  bool isBehind(uint64_t number) const { return newest_ >= kWidth && number <= newest_ - kWidth; }

  void advance(uint64_t number) {
    const uint64_t firstOfWindow = newest_ < kWidth ? 1 : newest_ - kWidth + 1;
    const uint64_t behind = number < kWidth ? 0 : number - kWidth;  // the last number behind the new window
    for (uint64_t left = firstOfWindow; left <= std::min(behind, newest_); ++left) {
      if (!seen_.test(left % kWidth)) addLate(left, left);
    }
    if (behind > newest_) addLate(newest_ + 1, behind);
    if (number - newest_ >= kWidth) {
      seen_.reset();
    } else {
      for (uint64_t skipped = newest_ + 1; skipped < number; ++skipped) seen_.reset(skipped % kWidth);
    }
    newest_ = number;
  }

  void addLate(uint64_t first, uint64_t last) {
    if (!late_.empty() && std::prev(late_.end())->second + 1 == first) {
      std::prev(late_.end())->second = last;
      return;
    }
    late_.insert_or_assign(late_.end(), first, last);
    if (late_.size() > kMostRanges) late_.erase(late_.begin());
  }

  bool takeLate(uint64_t number) {
    auto range = late_.upper_bound(number);
    if (range == late_.begin()) return false;
    --range;
    const uint64_t first = range->first;
    const uint64_t last = range->second;
    if (number > last) return false;
    if (number < last) late_.emplace(number + 1, last);
    if (number > first) {
      range->second = number - 1;
    } else {
      late_.erase(range);
    }
    return true;
  }

  uint64_t newest_ = 0;
  std::bitset<kWidth> seen_;
  std::map<uint64_t, uint64_t> late_;  // behind the window: the first and last number that have not come
};

}  // namespace hipress
