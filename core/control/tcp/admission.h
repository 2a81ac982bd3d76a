// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's answer to a HELLO: which processes may join the job.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/control/ledger/ledger.h"
#include "core/control/message.h"
#include "core/control/tcp/proof.h"
#include "core/control/tcp/tcp_control.h"

namespace hipress::control {

struct JobIdentity {
  int worldSize = 1;
  std::string token;
};

/// Throws InvalidArgument for an impossible job.
JobIdentity jobOf(const RendezvousOptions& options);

/// The refusal of a process with another protocol version, before it proves anything; nullptr: no refusal.
Failure refusalOfVersion(const Hello& hello);

/// The refusal of a process, or nullptr. A stranger without the token learns nothing else about the
/// job.
Failure refusal(const Hello& hello, std::string_view proof, const Greetings& greetings,
                const JobIdentity& job, const Ledger& ledger);

}  // namespace hipress::control
