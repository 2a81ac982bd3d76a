// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace hipress {

struct NetworkInterface {
  std::string name;     ///< "" if there is none.
  std::string problem;  ///< Why nothing can travel over it: "is down", "has no carrier"; "" if something can.
};

/// The interface that has this IPv4 or IPv6 address: "127.0.0.1" → "lo".
NetworkInterface interfaceOf(const std::string& address);

/// An interface with all its addresses.
struct InterfaceAddresses {
  std::string name;
  std::string problem;  ///< As above.
  bool isLoopback = false;
  std::vector<std::string> addresses;  ///< "10.0.0.1/24", "fd00::1/64", in the kernel's order.
};

/// All interfaces of this network namespace. Throws Transport if the kernel does not tell.
std::vector<InterfaceAddresses> everyInterface();

/// Why this machine may be unable to reach a host, as a sentence: what is wrong with the interface that leads
/// to it. "" if nothing is seen here.
std::string whyUnreachable(const std::string& host);

}  // namespace hipress
