// SPDX-License-Identifier: Apache-2.0
#include "core/control/tcp/admission.h"

namespace hipress::control {

namespace {

Failure refused(const std::string& message) {
  return failureOf(ErrorKind::kRefused, message);
}

}  // namespace

JobIdentity jobOf(const RendezvousOptions& options) {
  if (options.worldSize < 1) {
    throw invalidArgument("the world size is " + std::to_string(options.worldSize) +
                          "; it must be at least 1");
  }
  return {options.worldSize, options.token};
}

Failure refusalOfVersion(const Hello& hello) {
  if (hello.version != kProtocolVersion) {
    return refused("rank 0 speaks version " + std::to_string(kProtocolVersion) +
                   " of the control protocol, this process version " + std::to_string(hello.version) +
                   ". Install the same HiPress on all hosts");
  }
  return nullptr;
}

Failure refusal(const Hello& hello, std::string_view proof, const Greetings& greetings,
                const JobIdentity& job, const Ledger& ledger) {
  if (!sameInConstantTime(proof, proofOfRank(job.token, greetings))) {
    return refused(
        "the job token is wrong: this process belongs to another job, or was started without its job's "
        "token. Start "
        "all ranks with one launcher, or give them the same token");
  }
  const std::string rank = "rank " + std::to_string(hello.rank);
  if (hello.worldSize != job.worldSize) {
    return failureOf(ErrorKind::kMismatch, rank + " was started for " + std::to_string(hello.worldSize) +
                                               " ranks, rank 0 for " + std::to_string(job.worldSize) +
                                               ". Start all ranks with the same world size");
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
  return nullptr;
}

}  // namespace hipress::control
