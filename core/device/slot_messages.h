// SPDX-License-Identifier: Apache-2.0
//
// How a header of a message in a slot is written and checked (device/slot_entries.h), by kernels and by the
// processor. docs/wire-format.md has the fields; each is part of a word here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/slot_entries.h"

#if defined(__CUDACC_RTC__)
#define HIPRESS_ANYWHERE __device__
#else
#define HIPRESS_ANYWHERE
#endif

namespace hipress {

inline constexpr size_t kHeaderWords = 8;
inline constexpr uint32_t kHeaderStart = 0x015048;  ///< Magic and version.
inline constexpr uint8_t kRawBit = 1;
inline constexpr uint8_t kAbsentBit = 2;
inline constexpr uint8_t kZerosBit = 64;
inline constexpr uint8_t kNotFiniteBit = 128;

/// 1 + the rank whose contribution to an average is refused, or 0.
HIPRESS_ANYWHERE inline uint32_t refusedBy(const SlotSeal& entry) {
  if (entry.refused != nullptr && *entry.refused != 0) return *entry.refused;
  for (uint32_t rank = 0; entry.errors != nullptr && rank < entry.ranks; ++rank) {
    if (entry.errors[rank] != 0) return 1 + rank;
  }
  return 0;
}

/// Writes what an encoding leaves open. Returns whether the message has values that are not finite.
HIPRESS_ANYWHERE inline bool sealMessage(const SlotSeal& entry) {
  const bool zeros = entry.nonzero != nullptr && *entry.nonzero == 0;
  uint32_t absent = 0;
  if (refusedBy(entry) != 0)
    absent = kSlotRefused;
  else if (entry.absent != nullptr && zeros)
    absent = kSlotAbsent;
  if (entry.absent != nullptr) *entry.absent = absent;
  if (entry.header == nullptr) return false;
  uint32_t flags = absent != 0 ? kAbsentBit : entry.raw;
  uint32_t bytes = 0;
  bool notFinite = false;
  if (absent == 0) {
    bytes = entry.bytes != nullptr ? *entry.bytes : entry.payloadBytes;
    const bool found = entry.notFinite != nullptr && *entry.notFinite != 0;
    notFinite = found || (bytes == 0 && entry.elements != 0);
    if (found) flags |= kNotFiniteBit;
    if (entry.absent == nullptr && zeros) flags |= kZerosBit;
  }
  auto* const words = reinterpret_cast<uint32_t*>(entry.header);
  words[0] = kHeaderStart | flags << 24;
  words[1] = entry.codec;
  words[2] = static_cast<uint32_t>(entry.elements);
  words[3] = static_cast<uint32_t>(entry.elements >> 32);
  words[4] = bytes;
  words[5] = 0;
  words[6] = 0;
  // With 1 + the rank whose contribution the owner has refused, so that all ranks can say it.
  words[7] = entry.dtype | refusedBy(entry) << 16;
  return notFinite;
}

/// Whether the header is what the receiver expects.
HIPRESS_ANYWHERE inline bool isExpected(const SlotCheck& entry) {
  const auto* const words = reinterpret_cast<const uint32_t*>(entry.header);
  const auto flags = static_cast<uint8_t>(words[0] >> 24);
  constexpr uint8_t kKnown = kRawBit | kAbsentBit | kZerosBit | kNotFiniteBit;
  const uint64_t elements = words[2] | static_cast<uint64_t>(words[3]) << 32;
  if ((words[0] & 0xffffffu) != kHeaderStart || (flags & ~kKnown) != 0) return false;
  if (words[1] != entry.codec || elements != entry.elements) return false;
  // Checksum, reserved byte and, of an average, the refused contribution.
  if (words[5] != 0 || words[6] != 0 || words[7] != entry.dtype) return false;
  // Only an average is absent. The next rank refuses a partial sum of which a contribution was refused.
  if ((flags & kAbsentBit) != 0) return entry.absent != nullptr && (flags & kRawBit) == 0 && words[4] == 0;
  if ((flags & kRawBit) != entry.raw) return false;
  return entry.raw != 0 ? words[4] == entry.mostBytes : words[4] <= entry.mostBytes;
}

/// Notes what the header says. Returns whether the message has values that are not finite.
HIPRESS_ANYWHERE inline bool readMessage(const SlotCheck& entry) {
  const auto* const words = reinterpret_cast<const uint32_t*>(entry.header);
  const auto flags = static_cast<uint8_t>(words[0] >> 24);
  const bool absent = (flags & kAbsentBit) != 0;
  const bool good = isExpected(entry);
  if (entry.nonzero != nullptr && (flags & kZerosBit) == 0) *entry.nonzero = 1u;
  if (entry.absent != nullptr)
    *entry.absent = !good ? uint32_t{kSlotRefused} : absent ? uint32_t{kSlotAbsent} : 0u;
  return good && !absent && ((words[4] == 0 && entry.elements != 0) || (flags & kNotFiniteBit) != 0);
}

/// Keeps the header, unless an earlier one was refused. One thread calls it for all messages of a slot.
HIPRESS_ANYWHERE inline void refuse(const SlotCheck& entry) {
  if (entry.refused[0] != 0) return;
  for (size_t i = 0; i < kHeaderWords; ++i)
    entry.refused[1 + i] = reinterpret_cast<const uint32_t*>(entry.header)[i];
  entry.refused[0] = 1 + entry.sender;
}

}  // namespace hipress
