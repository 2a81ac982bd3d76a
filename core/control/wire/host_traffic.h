// SPDX-License-Identifier: Apache-2.0
//
// Traffic on the connections of this process, by which a slow link is told from a cut one. On a slow link
// gradients may arrive for seconds while a small message waits behind them, or is dropped by a full queue.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "core/base/time.h"

namespace hipress::control {

/// Milliseconds since this process last received bytes or an acknowledgement over TCP from the host at the
/// other end of `fd`. nullopt: there is no such connection. Reads every descriptor of the process, so it is
/// for the rare moment in which a host seems silent.
std::optional<Milliseconds> silenceOfHost(int fd);

/// By descriptor: the bytes that this process has received, and those whose arrival was acknowledged, on its
/// TCP connections with hosts other than its own and the one at the other end of `fd`. Reads every
/// descriptor, too.
std::map<int, uint64_t> bytesOfOtherHosts(int fd);

/// The bytes that this process has sent over TCP to other hosts and whose arrival they have acknowledged, on
/// the connections that it has now. Reads every descriptor, too.
uint64_t acknowledgedByOtherHosts();

}  // namespace hipress::control
