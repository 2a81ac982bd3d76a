// SPDX-License-Identifier: Apache-2.0
//
// Limits the memory for early messages. From time to time a receiver reports how many bytes of a sender
// have met their receives. The sender keeps a payload beyond its allowance in its own memory until the
// receiver asks for it (UCX's rendezvous protocol). So a rank that runs ahead, for example with a
// broadcast to ranks that still load their data, costs the other ranks a bounded amount of memory, and no
// rank waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hipress {

/// Bytes of early payloads that one peer may leave on a rank: the peer's part of 1 GiB, within limits.
inline size_t earlyAllowance(int worldSize) {
  constexpr size_t kAll = size_t{1} << 30;
  const auto peers = static_cast<size_t>(std::max(worldSize - 1, 1));
  return std::clamp(kAll / peers, size_t{32} << 20, size_t{256} << 20);
}

/// The sender's record of one link.
class EarlyCredit {
 public:
  explicit EarlyCredit(size_t allowance) : allowance_(allowance) {}

  /// Counts a message. Returns whether its payload may travel before the receiver asks for it.
  bool spend(size_t bytes) {
    sent_ += bytes;
    return sent_ - consumed_ <= allowance_;
  }
  /// Takes the receiver's newest report. It is at least the report before, and at most the bytes sent.
  void consumed(uint64_t bytes) { consumed_ = std::clamp(bytes, consumed_, sent_); }

 private:
  size_t allowance_;
  uint64_t sent_ = 0;
  uint64_t consumed_ = 0;
};

/// The receiver's record of one link.
class EarlyKeeping {
 public:
  /// Memory of each kept message besides its payload.
  static constexpr size_t kPerMessage = 256;

  explicit EarlyKeeping(size_t allowance) : allowance_(allowance) {}

  /// Counts a kept message. False: the peer has broken its allowance.
  bool keep(size_t bytes) {
    kept_ += bytes + kPerMessage;
    return kept_ <= 2 * allowance_ + kForHeaders;
  }
  void release(size_t bytes) { kept_ -= bytes + kPerMessage; }
  uint64_t kept() const { return kept_; }

  /// Counts bytes that met their receive. Returns the total to report to the sender now, or 0.
  uint64_t consume(size_t bytes) {
    consumed_ += bytes;
    if (consumed_ - told_ < allowance_ / 4) return 0;
    told_ = consumed_;
    return told_;
  }

 private:
  /// A sender beyond its allowance still sends envelopes, and the receiver keeps these.
  static constexpr size_t kForHeaders = size_t{256} << 20;

  size_t allowance_;
  uint64_t kept_ = 0;
  uint64_t consumed_ = 0;
  uint64_t told_ = 0;
};

}  // namespace hipress
