// SPDX-License-Identifier: Apache-2.0
#include "core/codec/wire/wire_header.h"

#include <cinttypes>
#include <cstdio>
#include <string>

#include "core/base/error.h"
#include "core/codec/wire/crc32c.h"
#include "core/element/nibbles.h"

namespace hipress {
namespace {

// The first byte of each field; docs/wire-format.md has the same table.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 2;
constexpr size_t kFlagsAt = 3;
constexpr size_t kCodecAt = 4;
constexpr size_t kElementCountAt = 8;
constexpr size_t kPayloadBytesAt = 16;
constexpr size_t kChecksumAt = 24;
constexpr size_t kDTypeAt = 28;
constexpr size_t kReservedAt = 29;
constexpr size_t kUpdatesAt = 30;

template <typename T>
void store(WireHeaderBytes& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[at + i] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

template <typename T>
T load(const WireHeaderBytes& bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= static_cast<uint64_t>(bytes[at + i]) << (8 * i);
  return static_cast<T>(value);
}

WireHeader parse(const WireHeaderBytes& bytes) {
  WireHeader header;
  header.magic = load<uint16_t>(bytes, kMagicAt);
  header.version = load<uint8_t>(bytes, kVersionAt);
  header.flags = load<uint8_t>(bytes, kFlagsAt);
  header.codec = load<uint32_t>(bytes, kCodecAt);
  header.elementCount = load<uint64_t>(bytes, kElementCountAt);
  header.payloadBytes = load<uint64_t>(bytes, kPayloadBytesAt);
  header.checksum = load<uint32_t>(bytes, kChecksumAt);
  header.dtype = static_cast<DType>(load<uint8_t>(bytes, kDTypeAt));
  header.reserved = load<uint8_t>(bytes, kReservedAt);
  header.updates = load<uint16_t>(bytes, kUpdatesAt);
  return header;
}

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

[[noreturn]] void refuse(const std::string& field, const std::string& value, const std::string& expected) {
  throw corruptPayload("wire header: " + field + " is " + value + ", expected " + expected);
}

std::string describe(DType dtype) {
  return std::to_string(static_cast<int>(dtype)) + " (" + std::string(dtypeName(dtype)) + ")";
}

void checkFlags(const WireHeader& header, bool inSlot) {
  const uint8_t known =
      inSlot ? kFlagRaw | kFlagAbsent | kFlagZeros | kFlagNotFinite
             : kFlagRaw | kFlagAbsent | kFlagChecksum | kFlagReference | kFlagTrimmed | kFlagPacked;
  if ((header.flags & ~known) != 0)
    refuse("flags", hexadecimal(header.flags), "only bits of " + hexadecimal(known));
  if ((header.flags & kFlagRaw) != 0 && (header.flags & kFlagAbsent) != 0) {
    refuse("flags", hexadecimal(header.flags), "not both raw and absent");
  }
  if ((header.flags & kFlagReference) != 0 && (header.flags & kFlagRaw) == 0) {
    refuse("flags", hexadecimal(header.flags), "a reference to raw elements only");
  }
  if ((header.flags & kFlagTrimmed) != 0 && (header.flags & (kFlagRaw | kFlagReference)) != kFlagRaw) {
    refuse("flags", hexadecimal(header.flags), "only raw elements themselves without the zeros at their end");
  }
  constexpr uint8_t otherRaw = kFlagReference | kFlagTrimmed;
  if ((header.flags & kFlagPacked) != 0 && (header.flags & (kFlagRaw | otherRaw)) != kFlagRaw) {
    refuse("flags", hexadecimal(header.flags), "only raw elements themselves in 4 bits each");
  }
  if ((header.flags & kFlagChecksum) == 0 && header.checksum != 0) {
    refuse("checksum", hexadecimal(header.checksum), "0, because the checksum flag is not set");
  }
}

void checkPayloadBytes(const WireHeader& header, const ExpectedMessage& expected) {
  const std::string value = std::to_string(header.payloadBytes);
  if ((header.flags & kFlagAbsent) != 0) {
    if (header.payloadBytes != 0) refuse("payload size", value, "0, because the gradient is absent");
  } else if ((header.flags & kFlagReference) != 0) {
    if (!expected.mayRefer) refuse("flags", hexadecimal(header.flags), "no reference to the sender's memory");
    if (header.payloadBytes != kReferencePayloadBytes) {
      refuse("payload size", value, std::to_string(kReferencePayloadBytes) + " (a reference)");
    }
  } else if ((header.flags & kFlagPacked) != 0) {
    if (!expected.mayPack) refuse("flags", hexadecimal(header.flags), "no elements in 4 bits each");
    if (header.payloadBytes != nibbleBytes(header.elementCount)) {
      refuse("payload size", value, std::to_string(header.elementCount) + " elements of 4 bits (packed)");
    }
  } else if ((header.flags & kFlagRaw) != 0) {
    // Divides instead of multiplying, so that no element count can overflow.
    const uint64_t size = elementSize(header.dtype);
    const bool trimmed = (header.flags & kFlagTrimmed) != 0;
    if (trimmed != expected.trimmed) {
      refuse("flags", hexadecimal(header.flags),
             expected.trimmed ? "elements without the zeros at their end" : "all elements");
    }
    if (trimmed) {
      if (header.payloadBytes / size > header.elementCount || header.payloadBytes % size != 0)
        refuse("payload size", value, "at most " + std::to_string(header.elementCount) + " elements");
      return;
    }
    if (header.payloadBytes % size != 0 || header.payloadBytes / size != header.elementCount) {
      refuse("payload size", value,
             std::to_string(header.elementCount) + " elements of " + std::to_string(size) + " bytes (raw)");
    }
  } else if (header.payloadBytes > expected.maxPayloadBytes) {
    refuse("payload size", value, "at most " + std::to_string(expected.maxPayloadBytes));
  }
}

}  // namespace

WireHeaderBytes packHeader(const WireHeader& header) {
  WireHeaderBytes bytes{};
  store(bytes, kMagicAt, header.magic);
  store(bytes, kVersionAt, header.version);
  store(bytes, kFlagsAt, header.flags);
  store(bytes, kCodecAt, header.codec);
  store(bytes, kElementCountAt, header.elementCount);
  store(bytes, kPayloadBytesAt, header.payloadBytes);
  store(bytes, kChecksumAt, header.checksum);
  store(bytes, kDTypeAt, static_cast<uint8_t>(header.dtype));
  store(bytes, kReservedAt, header.reserved);
  store(bytes, kUpdatesAt, header.updates);
  return bytes;
}

WireHeader unpackHeader(const WireHeaderBytes& bytes, const ExpectedMessage& expected) {
  const WireHeader header = parse(bytes);
  if (header.magic != kWireMagic) refuse("magic", hexadecimal(header.magic), hexadecimal(kWireMagic));
  if (header.version != kWireVersion) {
    refuse("version", std::to_string(header.version),
           std::to_string(kWireVersion) + "; all ranks must run the same version of HiPress");
  }
  checkFlags(header, expected.inSlot);
  if (header.codec != expected.codec) {
    refuse("codec", std::to_string(header.codec), std::to_string(expected.codec));
  }
  if (header.dtype != expected.dtype) refuse("dtype", describe(header.dtype), describe(expected.dtype));
  if (elementSize(header.dtype) == 0) refuse("dtype", describe(header.dtype), "a number of the dtype table");
  if (header.elementCount != expected.elementCount) {
    refuse("element count", std::to_string(header.elementCount), std::to_string(expected.elementCount));
  }
  checkPayloadBytes(header, expected);
  if (header.reserved != 0) refuse("the reserved byte", hexadecimal(header.reserved), "0");
  return header;
}

void verifyChecksum(const WireHeader& header, ConstBytes payload) {
  if ((header.flags & kFlagChecksum) == 0) return;
  const uint32_t found = crc32c(payload);
  if (found != header.checksum) {
    throw corruptPayload("payload of " + std::to_string(payload.size()) + " bytes: CRC-32C is " +
                         hexadecimal(found) + ", the header says " + hexadecimal(header.checksum));
  }
}

}  // namespace hipress
