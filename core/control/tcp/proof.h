// SPDX-License-Identifier: Apache-2.0
//
// The proofs by which both ends of a control connection show that they know the job's token, without sending
// it: an HMAC over all greetings, with a fresh nonce of each end. A recorded proof is invalid on another
// connection, and one end's proof is invalid for the other end.
#pragma once

#include <string>
#include <string_view>

#include "core/authentication/sha256.h"

namespace hipress::control {

/// The greetings of both ends before any proof.
struct Greetings {
  std::string hello;   ///< The payload of the rank's HELLO, with the rank's nonce.
  std::string answer;  ///< The nonce of rank 0's CHALLENGE.
};

std::string proofOfRank(std::string_view token, const Greetings& greetings);
std::string proofOfServer(std::string_view token, const Greetings& greetings);

}  // namespace hipress::control
