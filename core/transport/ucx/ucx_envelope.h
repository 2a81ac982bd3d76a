// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "core/transport/transport.h"

namespace hipress {

/// The number of our active messages.
inline constexpr unsigned kUcxMessageId = 0;

/// The bytes before every payload: the sender, the message's tag (or kBundleTag, or the tag of a signal), and
/// the proof that the other end of this link sends it, for the first time (link_seal.h).
struct UcxEnvelope {
  int32_t source = 0;
  MessageTag tag;
  MessageHeader header{};
  uint64_t number = 0;  ///< Number of the message on this link and direction, from 1.
  uint64_t proof = 0;   ///< Covers the fields above and the payload size.
};
static_assert(sizeof(UcxEnvelope) == 64);

/// Signals are messages between transports, without a payload. No tensor has this number. The header begins
/// with the value of the signal, 8 bytes.
inline constexpr MessageTag kGreetingTag{0xffffffff, 0xffffffff, 0xffff, 0xfffe};  ///< "This link works."
/// "This number of bytes of yours have met their receives" since the start.
inline constexpr MessageTag kConsumedTag{0xffffffff, 0xffffffff, 0xffff, 0xfffd};

inline uint64_t signalValue(const UcxEnvelope& envelope) {
  uint64_t value = 0;
  std::memcpy(&value, envelope.header.data(), sizeof value);
  return value;
}

}  // namespace hipress
