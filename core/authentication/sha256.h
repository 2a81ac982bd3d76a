// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for handshakes and derived keys: a few hundred bytes when
// ranks meet. The alternative would be a dependency on the OpenSSL headers of a system.
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

/// Compares in a time that depends on the lengths only. So the duration of a wrong guess tells an attacker
/// nothing about a secret.
bool sameInConstantTime(std::string_view a, std::string_view b);

}  // namespace hipress
