// SPDX-License-Identifier: Apache-2.0
//
// Proves that a message comes from the other end of its link. Each direction of a link has its own key. Only
// processes with the job's token can derive the key, and it is good for one start of the job, because it
// depends on nonces of both ends. docs/security.md names the attackers that the proof stops.
#pragma once

#include <string>
#include <vector>

#include "core/authentication/siphash.h"
#include "core/control/control_plane.h"
#include "core/transport/replay_window.h"
#include "core/transport/ucx/ucx_envelope.h"

namespace hipress {

/// Adds a number and a proof to outgoing messages.
class OutgoingSeal {
 public:
  explicit OutgoingSeal(const SipKey& key) : key_(key) {}
  void close(UcxEnvelope& envelope, size_t payloadBytes);

 private:
  SipKey key_;
  uint64_t last_ = 0;
};

/// Admits each message that the other end sealed, once.
class IncomingSeal {
 public:
  explicit IncomingSeal(const SipKey& key) : key_(key) {}
  bool admits(const UcxEnvelope& envelope, size_t payloadBytes);

 private:
  SipKey key_;
  ReplayWindow window_;
};

/// Index: the peer. No rank uses a link to itself.
struct LinkSeals {
  std::vector<OutgoingSeal> outgoing;
  std::vector<IncomingSeal> incoming;
};

/// `nonces`: one nonce of each rank, fresh for this start.
LinkSeals sealsOf(const ControlPlane& control, const std::vector<std::string>& nonces);

}  // namespace hipress
