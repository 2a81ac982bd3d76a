// SPDX-License-Identifier: Apache-2.0
//
// How a message proves that it comes from the other end of its link. Each direction of each link has a key of
// its own, which only processes with the job's token can derive, and only for this start of the job: nonces
// of both ends are in it. docs/security.md says against whom the proof protects.
#pragma once

#include <string>
#include <vector>

#include "core/authentication/siphash.h"
#include "core/control/control_plane.h"
#include "core/transport/replay_window.h"
#include "core/transport/ucx/ucx_envelope.h"

namespace hipress {

/// Puts a number and a proof on outgoing messages.
class OutgoingSeal {
 public:
  explicit OutgoingSeal(const SipKey& key) : key_(key) {}
  void close(UcxEnvelope& envelope, size_t payloadBytes);

 private:
  SipKey key_;
  uint64_t last_ = 0;
};

/// Knows the messages that the other end sealed, each once.
class IncomingSeal {
 public:
  explicit IncomingSeal(const SipKey& key) : key_(key) {}
  bool admits(const UcxEnvelope& envelope, size_t payloadBytes);

 private:
  SipKey key_;
  ReplayWindow window_;
};

/// By peer; a rank's link to itself is never used.
struct LinkSeals {
  std::vector<OutgoingSeal> outgoing;
  std::vector<IncomingSeal> incoming;
};

/// `nonces`: one of each rank, fresh for this start.
LinkSeals sealsOf(const ControlPlane& control, const std::vector<std::string>& nonces);

}  // namespace hipress
