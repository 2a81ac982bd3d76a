// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/proof.h"

namespace hipress::control {
namespace {

std::string proof(std::string_view who, std::string_view token, const Greetings& greetings) {
  std::string said(who);
  // A digest of the hello has a fixed length, so no two pairs of greetings make the same text.
  said.append(asText(sha256(greetings.hello))).append(greetings.answer);
  return std::string(asText(hmacSha256(token, said)));
}

}  // namespace

std::string proofOfRank(std::string_view token, const Greetings& greetings) {
  return proof("hipress rank", token, greetings);
}

std::string proofOfServer(std::string_view token, const Greetings& greetings) {
  return proof("hipress server", token, greetings);
}

}  // namespace hipress::control
