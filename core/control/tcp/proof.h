// SPDX-License-Identifier: Apache-2.0
//
// How both ends of a control connection prove that they know the job's token without sending it: an HMAC over
// what both said before, with a fresh nonce of each. A recorded proof is worth nothing on another connection,
// and a proof of one end is none of the other.
#pragma once

#include <string>
#include <string_view>

#include "core/authentication/sha256.h"

namespace hipress::control {

/// What both ends said before they proved anything.
struct Greetings {
  std::string hello;   ///< The payload of the rank's HELLO, which has its nonce.
  std::string answer;  ///< The nonce of rank 0's CHALLENGE.
};

std::string proofOfRank(std::string_view token, const Greetings& greetings);
std::string proofOfServer(std::string_view token, const Greetings& greetings);

}  // namespace hipress::control
