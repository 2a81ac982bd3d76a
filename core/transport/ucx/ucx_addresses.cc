// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_addresses.h"

#include "core/authentication/nonce.h"
#include "core/transport/neighbour/host_identity.h"

namespace hipress {

std::vector<UcxAddress> exchangeAddresses(ControlPlane& control, const UcxWorker& worker,
                                          Milliseconds timeout) {
  const std::string own = freshNonce() + hostIdentity() + std::string(1, '\0') + worker.address();
  std::vector<UcxAddress> addresses;
  for (const std::string& entry : control.allgather("transport.ucx", own, timeout)) {
    const size_t split = entry.find('\0', kNonceBytes);
    if (entry.size() < kNonceBytes || split == std::string::npos) {
      throw Error(ErrorKind::kMismatch,
                  "rank " + std::to_string(addresses.size()) +
                      " runs another version of HiPress; install the same on all hosts");
    }
    addresses.push_back({entry.substr(kNonceBytes, split - kNonceBytes), entry.substr(0, kNonceBytes),
                         entry.substr(split + 1)});
  }
  return addresses;
}

std::vector<std::string> noncesOf(const std::vector<UcxAddress>& addresses) {
  std::vector<std::string> nonces;
  for (const UcxAddress& address : addresses) nonces.push_back(address.nonce);
  return nonces;
}

}  // namespace hipress
