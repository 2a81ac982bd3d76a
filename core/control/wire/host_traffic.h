// SPDX-License-Identifier: Apache-2.0
//
// The time since this process last heard of another host, on any connection. On a slow link gradients may
// arrive for seconds while a small message waits behind them, or is dropped by a full queue.
#pragma once

#include <optional>

#include "core/base/time.h"

namespace hipress::control {

/// Milliseconds since this process last received bytes or an acknowledgement over TCP from the host at the
/// other end of `fd`. nullopt: there is no such connection. Reads every descriptor of the process, so it is
/// for the rare moment in which a host seems silent.
std::optional<Milliseconds> silenceOfHost(int fd);

}  // namespace hipress::control
