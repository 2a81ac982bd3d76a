// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/ucx_links.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

/// Whether all lanes of an endpoint are TCP.
bool onlyTcp(ucp_ep_h endpoint) {
  std::array<ucp_transport_entry_t, 16> lanes{};
  ucp_ep_attr_t attributes{};
  attributes.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
  attributes.transports.entries = lanes.data();
  attributes.transports.num_entries = lanes.size();
  attributes.transports.entry_size = sizeof lanes[0];
  if (ucp_ep_query(endpoint, &attributes) != UCS_OK) return false;
  const auto used = std::span(lanes).first(attributes.transports.num_entries);
  return !used.empty() && std::all_of(used.begin(), used.end(), [](const auto& lane) {
    return std::string_view(lane.transport_name) == "tcp";
  });
}

}  // namespace

UcxLinks::UcxLinks(int rank, const UcxWorker& worker, const std::vector<UcxAddress>& addresses,
                   std::function<void(int, const std::string&)> onBroken)
    : rank_(rank), onBroken_(std::move(onBroken)), peers_(addresses.size()) {
  const std::string& host = addresses[static_cast<size_t>(rank)].host;
  for (size_t other = 0; other < addresses.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    Peer& peer = peers_[other];
    peer.links = this;
    peer.rank = static_cast<int>(other);
    connect(peer, worker, addresses[other].worker, addresses[other].host == host);
  }
}

void UcxLinks::connect(Peer& peer, const UcxWorker& worker, const std::string& address, bool sameHost) {
  ucp_ep_params_t parameters{};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  // An endpoint that detects a dead peer cannot use shared memory. On one host the control plane detects the
  // death of a process.
  parameters.err_mode = sameHost ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = [](void* argument, ucp_ep_h, ucs_status_t status) {
    const auto* broken = static_cast<Peer*>(argument);
    broken->links->onBroken_(broken->rank, ucxMessage("the connection to it broke", status));
  };
  parameters.err_handler.arg = &peer;
  const ucs_status_t status = ucp_ep_create(worker.handle(), &parameters, &peer.endpoint);
  if (status != UCS_OK) {
    const std::string other = "rank " + std::to_string(peer.rank);
    const std::string what = "rank " + std::to_string(rank_) + ": UCX cannot connect to " + other;
    throw transportError(ucxMessage(what, status) +
                         "; look for a firewall (all ports, or those in UCX_TCP_PORT_RANGE, must be open "
                         "between hosts), a link that is down, or an error of " +
                         other);
  }
  peer.usesSockets = onlyTcp(peer.endpoint);
}

}  // namespace hipress
