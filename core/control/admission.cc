// SPDX-License-Identifier: Apache-2.0
#include "core/control/admission.h"

namespace hipress::control {

namespace {

Failure refused(std::string message) {
  return {ErrorKind::kRefused, std::move(message)};
}

}  // namespace

JobIdentity jobOf(const RendezvousOptions& options) {
  if (options.worldSize < 1) {
    throw invalidArgument("the world size is " + std::to_string(options.worldSize) +
                          "; it must be at least 1");
  }
  return {options.worldSize, options.token};
}

bool sameSecret(std::string_view a, std::string_view b) {
  volatile unsigned char difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const char other = b.empty() ? '\0' : b[i % b.size()];
    difference = static_cast<unsigned char>(difference | (a[i] ^ other));
  }
  return difference == 0;
}

std::optional<Failure> refusal(const Hello& hello, const JobIdentity& job, const Ledger& ledger) {
  if (hello.version != kProtocolVersion) {
    return refused("rank 0 speaks version " + std::to_string(kProtocolVersion) +
                   " of the control protocol, this process version " + std::to_string(hello.version) +
                   ". Install the same HiPress on all hosts");
  }
  if (!sameSecret(hello.token, job.token)) {
    return refused(
        "the job token is wrong: this process belongs to another job, or was started without its job's "
        "token. Start "
        "all ranks with one launcher, or give them the same token");
  }
  const std::string rank = "rank " + std::to_string(hello.rank);
  if (hello.worldSize != job.worldSize) {
    return Failure{ErrorKind::kMismatch, rank + " was started for " + std::to_string(hello.worldSize) +
                                             " ranks, rank 0 for " + std::to_string(job.worldSize) +
                                             ". Start all ranks with the same world size"};
  }
  if (hello.rank < 0 || hello.rank >= job.worldSize) {
    return refused(rank + " is out of range: ranks of this job are 0 to " +
                   std::to_string(job.worldSize - 1));
  }
  const Member& member = ledger.member(hello.rank);
  if (member.presence == Member::Presence::kHere) {
    return refused(rank + " is already taken by another process (" + member.origin +
                   "). Give every process its own rank, and the job its own port");
  }
  if (member.presence != Member::Presence::kAwaited) {
    return refused(member.end + ". A rank cannot come back to a running job: start the job again");
  }
  return std::nullopt;
}

}  // namespace hipress::control
