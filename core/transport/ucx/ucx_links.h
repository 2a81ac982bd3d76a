// SPDX-License-Identifier: Apache-2.0
//
// The connections to all peers, each made once.
#pragma once

#include <ucp/api/ucp.h>

#include <functional>
#include <string>
#include <vector>

#include "core/transport/ucx/ucx_addresses.h"
#include "core/transport/ucx/ucx_context.h"

namespace hipress {

class UcxLinks {
 public:
  /// The thread that makes progress calls `onBroken(peer, reason)`. Throws Transport.
  UcxLinks(int rank, const UcxWorker& worker, const std::vector<UcxAddress>& addresses,
           std::function<void(int, const std::string&)> onBroken);
  UcxLinks(const UcxLinks&) = delete;
  UcxLinks& operator=(const UcxLinks&) = delete;

  ucp_ep_h to(int peer) const { return peers_[static_cast<size_t>(peer)].endpoint; }

  /// Whether messages to this peer pass the kernel's sockets, at some microseconds each. With any other
  /// transport of UCX a message costs less than the two copies of a bundle.
  bool usesSockets(int peer) const { return peers_[static_cast<size_t>(peer)].usesSockets; }

 private:
  struct Peer {
    UcxLinks* links = nullptr;
    int rank = -1;
    ucp_ep_h endpoint = nullptr;
    bool usesSockets = false;
  };

  void connect(Peer& peer, const UcxWorker& worker, const std::string& address, bool sameHost);

  const int rank_;
  const std::function<void(int, const std::string&)> onBroken_;
  std::vector<Peer> peers_;
};

}  // namespace hipress
