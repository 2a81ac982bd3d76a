// SPDX-License-Identifier: Apache-2.0
//
// Tests the header check with any header and any expectation. An accepted header must be the
// agreed header, and the checksum must be the same at every instruction-set level. The input
// begins with the bits by which the expectation differs from the header: codec (4 bytes),
// element count (8), bound of the payload (8), dtype (1). The header and the payload follow. So
// a mutated header field still agrees with the expectation, unless a mutation changes these
// bits.
#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/codec/wire/crc32c.h"
#include "core/codec/wire/wire_header.h"
#include "core/element/multiversion.h"
#include "core/element/nibbles.h"
#include "tests/core/stress/world/check.h"
#include "tests/fuzz/driver/target.h"
#include "tests/fuzz/levels.h"

namespace hipress::fuzz {
namespace {

constexpr size_t kExpectedBytes = 21;

template <typename T>
T take(std::span<const uint8_t>& input) {
  T value;
  std::memcpy(&value, input.data(), sizeof(T));
  input = input.subspan(sizeof(T));
  return value;
}

void checkAccepted(const WireHeader& header, const WireHeaderBytes& bytes, const ExpectedMessage& expected) {
  CHECK(packHeader(header) == bytes);
  CHECK(header.magic == kWireMagic && header.version == kWireVersion);
  CHECK(header.codec == expected.codec && header.elementCount == expected.elementCount);
  CHECK(header.dtype == expected.dtype && static_cast<int>(header.dtype) < kDTypeCount);
  if ((header.flags & kFlagAbsent) != 0) {
    CHECK(header.payloadBytes == 0);
  } else if ((header.flags & kFlagPacked) != 0) {
    CHECK(expected.mayPack && header.payloadBytes == nibbleBytes(header.elementCount));
  } else if ((header.flags & kFlagRaw) != 0) {
    uint64_t bytesOfAll = 0;
    CHECK(!__builtin_mul_overflow(header.elementCount, elementSize(header.dtype), &bytesOfAll));
    CHECK(header.payloadBytes == bytesOfAll);
  } else {
    CHECK(header.payloadBytes <= expected.maxPayloadBytes);
  }
}

/// Calls `call`. Returns whether it threw CorruptPayload.
template <typename Call>
bool refuses(const Call& call) {
  try {
    call();
    return false;
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kCorruptPayload, error.what());
    CHECK(std::string(error.what()).find("expected") != std::string::npos ||
              std::string(error.what()).find("CRC-32C") != std::string::npos,
          error.what());
    return true;
  }
}

Input agreed(const WireHeader& header, const Input& payload) {
  Input input(kExpectedBytes);
  const WireHeaderBytes bytes = packHeader(header);
  for (const std::byte byte : bytes) input.push_back(static_cast<uint8_t>(byte));
  input.insert(input.end(), payload.begin(), payload.end());
  return input;
}

}  // namespace

std::vector<Seed> targetSeeds() {
  Input payload(40);
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(37 * i);
  const uint32_t checksum = crc32c(std::as_bytes(std::span(payload)));
  const WireHeader encoded{.codec = 18, .elementCount = 128, .payloadBytes = payload.size()};
  WireHeader checked = encoded;
  checked.flags = kFlagChecksum;
  checked.checksum = checksum;
  WireHeader raw = checked;
  raw.flags = kFlagRaw | kFlagChecksum;
  raw.dtype = DType::kFloat64;
  raw.elementCount = payload.size() / 8;
  WireHeader packed = encoded;
  packed.flags = kFlagRaw | kFlagPacked;
  packed.dtype = DType::kInt8;
  packed.elementCount = 2 * payload.size();
  WireHeader absent = encoded;
  absent.flags = kFlagAbsent;
  absent.payloadBytes = 0;
  return {{"encoded", agreed(encoded, payload)},
          {"checked", agreed(checked, payload)},
          {"raw", agreed(raw, payload)},
          {"packed", agreed(packed, payload)},
          {"absent", agreed(absent, {})}};
}

void runTarget(std::span<const uint8_t> input) {
  if (input.size() < kExpectedBytes + kWireHeaderBytes) return;
  ExpectedMessage expected;
  expected.codec = take<CodecId>(input);
  expected.elementCount = take<uint64_t>(input);
  expected.maxPayloadBytes = take<uint64_t>(input);
  auto dtype = take<uint8_t>(input);
  const auto bytes = take<WireHeaderBytes>(input);
  static_assert(std::endian::native == std::endian::little);
  const auto sent = std::bit_cast<WireHeader>(bytes);
  expected.codec ^= sent.codec;
  expected.elementCount ^= sent.elementCount;
  expected.maxPayloadBytes ^= sent.payloadBytes;
  dtype ^= static_cast<uint8_t>(sent.dtype);
  expected.dtype = static_cast<DType>(dtype);
  expected.mayPack = expected.dtype == DType::kInt8;
  WireHeader header;
  if (refuses([&] { header = unpackHeader(bytes, expected); })) return;
  checkAccepted(header, bytes, expected);

  const std::vector<std::byte> payload(std::as_bytes(input).begin(), std::as_bytes(input).end());
  setIsaLevel(compiledLevel(IsaLevel::kGeneric));
  const uint32_t checksum = crc32c(payload);
  for (const IsaLevel level : {IsaLevel::kV3, IsaLevel::kV4}) {
    setIsaLevel(compiledLevel(level));
    CHECK(crc32c(payload) == checksum, isaLevelName(level));
  }
  const bool wrong = (header.flags & kFlagChecksum) != 0 && header.checksum != checksum;
  CHECK(refuses([&] { verifyChecksum(header, payload); }) == wrong);
}

}  // namespace hipress::fuzz
