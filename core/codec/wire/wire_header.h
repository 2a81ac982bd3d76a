// SPDX-License-Identifier: Apache-2.0
//
// The 32 bytes in front of every payload, on every transport, device and framework. Byte by byte in
// docs/wire-format.md; all numbers little endian.
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
  kFlagRaw = 1,  ///< The payload is the elements themselves, in the header's dtype, whatever the codec says.
  kFlagAbsent = 2,     ///< This rank has no gradient for the tensor in this step; the payload is empty.
  kFlagChecksum = 4,   ///< `checksum` holds the CRC-32C of the payload.
  kFlagReference = 8,  ///< With kFlagRaw: the payload says where the elements are in the sender's memory.
  kFlagTrimmed = 16,   ///< With kFlagRaw: the elements behind the payload are zeros.
};

/// Payload of a reference: process and address, each 8 bytes.
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
  uint16_t updates = 0;  ///< Submission::updates of the sender; the engine compares it.
};
static_assert(sizeof(WireHeader) == kWireHeaderBytes && std::is_trivially_copyable_v<WireHeader>);

/// What the receiver knows of a message before it comes, because all ranks agreed on it.
struct ExpectedMessage {
  CodecId codec = 0;
  DType dtype = DType::kFloat32;
  uint64_t elementCount = 0;
  uint64_t maxPayloadBytes =
      0;                  ///< The codec's bound; a raw payload is bounded by elementCount · elementSize.
  bool mayRefer = false;  ///< Whether the payload may be a reference: the sender's memory can be read.
  bool trimmed = false;   ///< Whether the elements travel without the zeros at their end.
};

WireHeaderBytes packHeader(const WireHeader& header);

/// Checks every field against what was agreed. Throws CorruptPayload with the field, its value and the
/// expected one.
WireHeader unpackHeader(const WireHeaderBytes& bytes, const ExpectedMessage& expected);

/// Throws CorruptPayload if the header carries a checksum and the payload does not have it.
void verifyChecksum(const WireHeader& header, ConstBytes payload);

}  // namespace hipress
