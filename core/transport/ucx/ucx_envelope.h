// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>

#include "core/transport/transport.h"

namespace hipress {

/// Active messages of this number are ours.
inline constexpr unsigned kUcxMessageId = 0;

/// In front of every payload: the sender, the name of the message (or kBundleTag, or the tag of a signal),
/// and the proof that the other end of this link sends it, and sends it for the first time (link_seal.h).
struct UcxEnvelope {
  int32_t source = 0;
  MessageTag tag;
  MessageHeader header{};
  uint64_t number = 0;  ///< Counts the messages of this link in this direction, from 1.
  uint64_t proof = 0;   ///< Over everything above and the payload's size.
};
static_assert(sizeof(UcxEnvelope) == 64);

/// Signals are messages between transports, without a payload; no tensor has this number. The header begins
/// with the signal's value, 8 bytes.
inline constexpr MessageTag kGreetingTag{0xffffffff, 0xffffffff, 0xffff, 0xfffe};  ///< "This link works."
/// "This many bytes of yours have met their receives", since the start.
inline constexpr MessageTag kConsumedTag{0xffffffff, 0xffffffff, 0xffff, 0xfffd};

inline uint64_t signalValue(const UcxEnvelope& envelope) {
  uint64_t value = 0;
  std::memcpy(&value, envelope.header.data(), sizeof value);
  return value;
}

}  // namespace hipress
