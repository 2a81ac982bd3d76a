// SPDX-License-Identifier: Apache-2.0
//
// A connection to each peer, made once.
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
  /// `onBroken(peer, reason)` is called by the thread that makes progress. Throws Transport.
  UcxLinks(int rank, const UcxWorker& worker, const std::vector<UcxAddress>& addresses,
           std::function<void(int, const std::string&)> onBroken);
  UcxLinks(const UcxLinks&) = delete;
  UcxLinks& operator=(const UcxLinks&) = delete;

  ucp_ep_h to(int peer) const { return peers_[static_cast<size_t>(peer)].endpoint; }

  /// Whether messages go through the kernel's sockets, some microseconds each. (No other transport of UCX
  /// takes as much for a message as a bundle's two copies take.)
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
