// SPDX-License-Identifier: Apache-2.0
//
// Records the numbers of a link's messages, so that no message is taken twice (the anti-replay window of
// IPsec, RFC 4303 section 3.4.3). A transport may let messages overtake each other a little. The window
// refuses a message whose number is kWidth or more behind the newest.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

namespace hipress {

class ReplayWindow {
 public:
  static constexpr uint64_t kWidth = 4096;

  /// Returns whether the message with this number, 1 or more, comes for the first time.
  bool admit(uint64_t number) {
    if (number == 0 || number + kWidth <= newest_) return false;
    if (number > newest_) {
      if (number - newest_ >= kWidth) {
        seen_.reset();
      } else {
        for (uint64_t skipped = newest_ + 1; skipped < number; ++skipped) seen_.reset(skipped % kWidth);
      }
      newest_ = number;
    } else if (seen_.test(number % kWidth)) {
      return false;
    }
    seen_.set(number % kWidth);
    return true;
  }

 private:
  uint64_t newest_ = 0;
  std::bitset<kWidth> seen_;
};

}  // namespace hipress
