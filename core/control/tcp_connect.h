// SPDX-License-Identifier: Apache-2.0
//
// Getting from "rank 0 should be there" to an accepted connection.
#pragma once

#include "core/control/framed_stream.h"
#include "core/control/socket.h"
#include "core/control/tcp_control.h"

namespace hipress::control {

struct Connection {
  Socket socket;
  FrameReceiver in;  ///< May hold what rank 0 sent behind its welcome.
};

/// Tries until options.timeout. Throws Refused, Mismatch, Timeout, Transport.
Connection connectToServer(const RendezvousOptions& options);

}  // namespace hipress::control
