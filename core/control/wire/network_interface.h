// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hipress {

struct NetworkInterface {
  std::string name;     ///< Empty: there is none.
  std::string problem;  ///< "is down", "has no carrier"; empty: the interface works.
};

/// The interface that has this IPv4 or IPv6 address: "127.0.0.1" → "lo".
NetworkInterface interfaceOf(const std::string& address);

/// An interface with all its addresses.
struct InterfaceAddresses {
  std::string name;
  std::string problem;  ///< See NetworkInterface.
  bool isLoopback = false;
  std::vector<std::string> addresses;  ///< "10.0.0.1/24", "fd00::1/64", in the kernel's order.
};

/// All interfaces of this network namespace. Throws Transport if the kernel does not tell.
std::vector<InterfaceAddresses> everyInterface();

/// The reason why this machine may be unable to reach a host, as a sentence about the interface that leads to
/// it. Empty if this machine sees no problem.
std::string whyUnreachable(const std::string& host);

}  // namespace hipress
