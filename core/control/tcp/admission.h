// SPDX-License-Identifier: Apache-2.0
//
// Which processes may join the job: rank 0's answer to a HELLO.
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

/// Throws InvalidArgument for a job that cannot be.
JobIdentity jobOf(const RendezvousOptions& options);

/// Why a process that speaks so is turned away before it proves anything, or nullptr.
Failure refusalOfVersion(const Hello& hello);

/// Why this process is turned away, or nullptr. A stranger without the token learns nothing else about the
/// job.
Failure refusal(const Hello& hello, std::string_view proof, const Greetings& greetings,
                const JobIdentity& job, const Ledger& ledger);

}  // namespace hipress::control
