// SPDX-License-Identifier: Apache-2.0
//
// UCX's context and worker, configured for training: event driven, fast TCP, shared memory between ranks of
// one host.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/transport/ucx/shared_memory.h"

namespace hipress {

/// "what: UCX's text for the status".
std::string ucxMessage(const std::string& what, ucs_status_t status);

/// Throws Transport with ucxMessage() unless the status is UCS_OK.
void requireUcx(ucs_status_t status, const std::string& what);

/// Lets UCX use bridges (br0), which it ignores by default: a bridge may have a host's only address. For
/// contexts that use chosen devices or list devices. UCX before 1.12 has no such setting.
void allowBridges(ucp_config_t* config);

/// The error of a transfer with `peer`: PeerLost if the status is about the connection, else Transport.
/// `doing`: "sending to", "receiving from".
Error transferError(const std::string& doing, int peer, ucs_status_t status);

class UcxWorker {
 public:
  /// `netDevices`: as UCX_NET_DEVICES ("lo", "eth0"); empty: UCX chooses. Variables of the user override our
  /// settings. An attempt to connect to a peer that does not answer takes at most `connectLimit`, or 3 s.
  /// Throws Transport.
  UcxWorker(const std::string& netDevices, Milliseconds connectLimit, SharedMemoryKind memory);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker_h handle() const { return worker_; }
  /// The bytes that another worker needs to connect to this one.
  std::string address() const;
  /// Readable when the worker has work, after ucp_worker_arm().
  int wakeFd() const { return wakeFd_; }

  /// Destroys worker and context now. Nothing is sent or received after that.
  void destroy();

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int wakeFd_ = -1;
};

}  // namespace hipress
