// SPDX-License-Identifier: Apache-2.0
//
// Who may join the job: what rank 0 answers to a HELLO.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/control/ledger.h"
#include "core/control/message.h"
#include "core/control/tcp_control.h"

namespace hipress::control {

struct JobIdentity {
  int worldSize = 1;
  std::string token;
};

/// Throws InvalidArgument for a job that cannot be.
JobIdentity jobOf(const RendezvousOptions& options);

/// Why this process is turned away, or nothing. A stranger without the token learns nothing else about the
/// job.
std::optional<Failure> refusal(const Hello& hello, const JobIdentity& job, const Ledger& ledger);

/// Takes the same time wherever the first difference is.
bool sameSecret(std::string_view a, std::string_view b);

}  // namespace hipress::control
