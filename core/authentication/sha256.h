// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for handshakes and for deriving keys: a few hundred bytes
// when ranks meet. Written here because the only alternative is a dependency on a system's OpenSSL headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hipress {

using Digest = std::array<uint8_t, 32>;

Digest sha256(std::string_view bytes);
Digest hmacSha256(std::string_view key, std::string_view message);

inline std::string_view asText(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// Compares in a time that depends on the lengths only: an attacker learns nothing about a secret from how
/// long a wrong guess takes.
bool sameInConstantTime(std::string_view a, std::string_view b);

}  // namespace hipress
