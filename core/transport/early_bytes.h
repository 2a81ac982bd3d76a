// SPDX-License-Identifier: Apache-2.0
//
// How much a rank may keep of messages that came before their receives. A sender knows how many of its bytes
// have met their receives, because the receiver says so now and then; payloads beyond the allowance stay in
// the sender's memory until the receiver asks (rendezvous). So a rank that runs ahead, for example with a
// broadcast to ranks that still load their data, costs the others a bounded amount of memory, and no rank
// waits for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hipress {

/// Bytes of payloads that one peer may leave with a rank: its part of 1 GiB, within limits.
inline size_t earlyAllowance(int worldSize) {
  constexpr size_t kAll = size_t{1} << 30;
  const auto peers = static_cast<size_t>(std::max(worldSize - 1, 1));
  return std::clamp(kAll / peers, size_t{32} << 20, size_t{256} << 20);
}

/// The sender's account of one link.
class EarlyCredit {
 public:
  explicit EarlyCredit(size_t allowance) : allowance_(allowance) {}

  /// Counts a message; whether its payload may go before the receiver asks.
  bool spend(size_t bytes) {
    sent_ += bytes;
    return sent_ - consumed_ <= allowance_;
  }
  /// The receiver's last word. It cannot be less than an earlier one, nor more than was sent.
  void consumed(uint64_t bytes) { consumed_ = std::clamp(bytes, consumed_, sent_); }

 private:
  size_t allowance_;
  uint64_t sent_ = 0;
  uint64_t consumed_ = 0;
};

/// The receiver's account of one link.
class EarlyKeeping {
 public:
  /// In memory, beside its payload, for each message that is kept.
  static constexpr size_t kPerMessage = 256;

  explicit EarlyKeeping(size_t allowance) : allowance_(allowance) {}

  /// False: the peer has left more than any sender that keeps to its allowance can.
  bool keep(size_t bytes) {
    kept_ += bytes + kPerMessage;
    return kept_ <= 2 * allowance_ + kForHeaders;
  }
  void release(size_t bytes) { kept_ -= bytes + kPerMessage; }
  uint64_t kept() const { return kept_; }

  /// Bytes that met their receive: what to tell the sender now, or 0.
  uint64_t consume(size_t bytes) {
    consumed_ += bytes;
    if (consumed_ - told_ < allowance_ / 4) return 0;
    told_ = consumed_;
    return told_;
  }

 private:
  /// A sender beyond its allowance still sends envelopes, which are kept.
  static constexpr size_t kForHeaders = size_t{256} << 20;

  size_t allowance_;
  uint64_t kept_ = 0;
  uint64_t consumed_ = 0;
  uint64_t told_ = 0;
};

}  // namespace hipress
