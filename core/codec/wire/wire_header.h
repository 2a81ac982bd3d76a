// SPDX-License-Identifier: Apache-2.0
//
// The 32 bytes before every payload, the same for all transports, devices and frameworks. docs/wire-format.md
// describes each byte; all numbers are little endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/codec/codec.h"
#include "core/element/dtype.h"

namespace hipress {

inline constexpr size_t kWireHeaderBytes = 32;
inline constexpr uint16_t kWireMagic = 0x5048;  // "HP"
inline constexpr uint8_t kWireVersion = 1;

using WireHeaderBytes = std::array<std::byte, kWireHeaderBytes>;

enum WireFlags : uint8_t {
  kFlagRaw = 1,        ///< The payload has the elements in the header's dtype. The codec does not apply.
  kFlagAbsent = 2,     ///< The sender has no gradient for the tensor in this step; the payload is empty.
  kFlagChecksum = 4,   ///< `checksum` holds the CRC-32C of the payload.
  kFlagReference = 8,  ///< With kFlagRaw: the payload is the place of the elements in the sender's memory.
  kFlagTrimmed = 16,   ///< With kFlagRaw: the elements behind the payload are zeros.
  kFlagPacked = 32,    ///< With kFlagRaw: two int8 elements in a byte (element/nibbles.h).
  // Of messages in slots (slots/program/slot.h):
  kFlagZeros = 64,       ///< The sender's gradient is zeros; the payload may have what it held back.
  kFlagNotFinite = 128,  ///< The payload has values that are not finite.
};

/// The payload of a reference: process and address, 8 bytes each.
inline constexpr size_t kReferencePayloadBytes = 16;

struct WireHeader {
  uint16_t magic = kWireMagic;
  uint8_t version = kWireVersion;
  uint8_t flags = 0;
  CodecId codec = 0;
  uint64_t elementCount = 0;
  uint64_t payloadBytes = 0;
  uint32_t checksum = 0;
  DType dtype = DType::kFloat32;
  uint8_t reserved = 0;
  uint16_t updates = 0;  ///< Submission::updates of the sender; the engine compares the ranks' values.
};
static_assert(sizeof(WireHeader) == kWireHeaderBytes && std::is_trivially_copyable_v<WireHeader>);

/// The receiver's knowledge of a message before it arrives: all ranks agreed on it.
struct ExpectedMessage {
  CodecId codec = 0;
  DType dtype = DType::kFloat32;
  uint64_t elementCount = 0;
  uint64_t maxPayloadBytes =
      0;                  ///< The codec's bound. For raw payloads elementCount · elementSize is the bound.
  bool mayRefer = false;  ///< The payload may be a reference, because this rank can read the sender's memory.
  bool trimmed = false;   ///< The elements travel without the zeros at their end.
  bool mayPack = false;   ///< The elements may be packed, because each fits into 4 bits.
  bool inSlot = false;    ///< The message may have the flags of slots, and of the others only raw and absent.
};

WireHeaderBytes packHeader(const WireHeader& header);

/// Checks every field against the agreement. Throws CorruptPayload with the field, its value and the expected
/// value.
WireHeader unpackHeader(const WireHeaderBytes& bytes, const ExpectedMessage& expected);

/// Throws CorruptPayload if the header has a checksum and the payload has another one.
void verifyChecksum(const WireHeader& header, ConstBytes payload);

}  // namespace hipress
