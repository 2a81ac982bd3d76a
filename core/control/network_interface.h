// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace hipress {

struct NetworkInterface {
  std::string name;     ///< "" if there is none.
  std::string problem;  ///< Why nothing can travel over it: "is down", "has no carrier"; "" if something can.
};

/// The interface that has this IPv4 or IPv6 address: "127.0.0.1" → "lo".
NetworkInterface interfaceOf(const std::string& address);

/// Why this machine may be unable to reach a host, as a sentence: what is wrong with the interface that leads
/// to it. "" if nothing is seen here.
std::string whyUnreachable(const std::string& host);

}  // namespace hipress
