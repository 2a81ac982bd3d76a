// SPDX-License-Identifier: Apache-2.0
//
// UCX's context and worker, configured for training: event driven, fast TCP, shared memory between ranks of a
// host.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "core/base/error.h"
#include "core/base/time.h"

namespace hipress {

/// "what: UCX's text for the status".
std::string ucxMessage(const std::string& what, ucs_status_t status);

/// Throws TransportError with that message unless the status is UCS_OK.
void requireUcx(ucs_status_t status, const std::string& what);

/// Lets UCX use bridges (br0), which it does not by itself: a host's only address may be on one. For
/// contexts that are confined to devices, or that list them. UCX before 1.12 knows no such setting.
void allowBridges(ucp_config_t* config);

/// What became of a transfer with `peer`: PeerLost if the status speaks of the connection, else Transport.
/// `doing`: "sending to", "receiving from".
Error transferError(const std::string& doing, int peer, ucs_status_t status);

class UcxWorker {
 public:
  /// `netDevices`: UCX's UCX_NET_DEVICES ("lo", "eth0"); empty leaves UCX's choice. Variables the user set
  /// win over our settings. Connecting to a peer that does not answer takes at most `connectLimit`, or 3 s.
  /// Throws Transport.
  UcxWorker(const std::string& netDevices, Milliseconds connectLimit);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  /// The bytes with which another worker connects to this one.
  std::string address() const;
  /// Becomes readable when there is something to progress after ucp_worker_arm().
  int wakeFd() const { return wakeFd_; }

  /// Destroys worker and context now; nothing is sent or received any more.
  void destroy();

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wakeFd_ = -1;
};

}  // namespace hipress
