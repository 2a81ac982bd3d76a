// SPDX-License-Identifier: Apache-2.0
#include "core/control/network_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <memory>

#include "core/control/socket.h"
#include "core/error.h"

namespace hipress {
namespace {

using Interfaces = std::unique_ptr<ifaddrs, void (*)(ifaddrs*)>;

Interfaces interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) list = nullptr;
  return {list, freeifaddrs};
}

std::string problemOf(unsigned flags) {
  if ((flags & IFF_UP) == 0) return "is down";
  return (flags & IFF_RUNNING) == 0 ? "has no carrier" : "";
}

/// "Interface eth0 is down" for each that is up to nothing; "" if all are in order.
std::string everyProblem() {
  std::string all;
  const Interfaces list = interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    // Each interface is in the list once without an address of the internet.
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_PACKET) continue;
    const std::string problem = problemOf(entry->ifa_flags);
    if (!problem.empty()) all += (all.empty() ? "" : ", ") + std::string(entry->ifa_name) + " " + problem;
  }
  return all;
}

}  // namespace

NetworkInterface interfaceOf(const std::string& address) {
  const Interfaces list = interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(entry->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (address == text.data()) return {entry->ifa_name, problemOf(entry->ifa_flags)};
  }
  return {};
}

std::string whyUnreachable(const std::string& host) {
  constexpr int kAnyPort = 9;
  try {
    const control::AddressList addresses = control::resolve(host, kAnyPort);
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      // A datagram socket sends nothing when it connects: the kernel only chooses the way.
      const control::Socket socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0) continue;
      const NetworkInterface found = interfaceOf(control::localAddressOf(socket.get()));
      if (found.problem.empty()) return "";
      return "The network interface " + found.name + ", which leads there, " + found.problem;
    }
  } catch (const Error&) {
    return "";  // the name is not known, which is not the interfaces' fault
  }
  const std::string problems = everyProblem();
  return "No network interface of this machine leads there" + (problems.empty() ? "" : " (" + problems + ")");
}

}  // namespace hipress
