// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/trust/link_seal.h"

#include <array>
#include <cstring>

namespace hipress {
namespace {

uint64_t proofOf(const SipKey& key, const UcxEnvelope& envelope, size_t payloadBytes) {
  constexpr size_t kProved = offsetof(UcxEnvelope, proof);
  std::array<std::byte, kProved + sizeof(uint64_t)> said;
  const uint64_t size = payloadBytes;
  std::memcpy(said.data(), &envelope, kProved);
  std::memcpy(said.data() + kProved, &size, sizeof size);
  return siphash(key, said);
}

SipKey keyOf(const Digest& master, int from, int to, const std::vector<std::string>& nonces) {
  const std::string direction = "link " + std::to_string(from) + " " + std::to_string(to) + " ";
  const Digest derived = hmacSha256(
      asText(master), direction + nonces[static_cast<size_t>(from)] + nonces[static_cast<size_t>(to)]);
  SipKey key;
  std::memcpy(key.data(), derived.data(), sizeof key);
  return key;
}

}  // namespace

void OutgoingSeal::close(UcxEnvelope& envelope, size_t payloadBytes) {
  envelope.number = ++last_;
  envelope.proof = proofOf(key_, envelope, payloadBytes);
}

bool IncomingSeal::admits(const UcxEnvelope& envelope, size_t payloadBytes) {
  return envelope.proof == proofOf(key_, envelope, payloadBytes) && window_.admit(envelope.number);
}

LinkSeals sealsOf(const ControlPlane& control, const std::vector<std::string>& nonces) {
  const Digest master = control.deriveKey("hipress data plane");
  LinkSeals seals;
  for (int peer = 0; peer < control.worldSize(); ++peer) {
    seals.outgoing.emplace_back(keyOf(master, control.rank(), peer, nonces));
    seals.incoming.emplace_back(keyOf(master, peer, control.rank(), nonces));
  }
  return seals;
}

}  // namespace hipress
