// SPDX-License-Identifier: Apache-2.0
//
// Connects to rank 0, which may not listen yet, and waits until rank 0 accepts this rank.
#pragma once

#include "core/control/tcp/tcp_control.h"
#include "core/control/wire/framed_stream.h"
#include "core/control/wire/socket.h"

namespace hipress::control {

struct Connection {
  Socket socket;
  FrameReceiver in;  ///< May have frames that rank 0 sent after its welcome.
};

/// Tries until options.timeout has passed. Throws Refused, Mismatch, Timeout, Transport, and
/// NotInitialized after options.stop.
Connection connectToServer(const RendezvousOptions& options);

}  // namespace hipress::control
