// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/network_interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <span>

#include "core/base/error.h"
#include "core/control/wire/socket.h"

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

/// The text has the zone ("%eth0") if the address is link-local. Empty for an address of another family.
std::string textOf(const sockaddr* address) {
  if (address == nullptr) return "";
  const int family = address->sa_family;
  if (family != AF_INET && family != AF_INET6) return "";
  const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text.data();
}

int prefixLength(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  const void* bits = mask->sa_family == AF_INET
                         ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
                         : &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr;
  int length = 0;
  for (const unsigned char byte :
       std::span(static_cast<const unsigned char*>(bits), mask->sa_family == AF_INET ? 4 : 16))
    length += std::popcount(byte);
  return length;
}

/// "eth0 is down" for each interface with a problem; empty if there is none.
std::string everyProblem() {
  std::string all;
  const Interfaces list = interfaces();
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    // The list has each interface once without an internet address.
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
    if (!address.empty() && address == textOf(entry->ifa_addr))
      return {entry->ifa_name, problemOf(entry->ifa_flags)};
  }
  return {};
}

std::vector<InterfaceAddresses> everyInterface() {
  const Interfaces list = interfaces();
  if (list == nullptr)
    throw transportError("the kernel lists no network interfaces: " + control::errorText(errno));
  std::vector<InterfaceAddresses> all;
  for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
    auto found = std::find_if(all.begin(), all.end(),
                              [entry](const auto& known) { return known.name == entry->ifa_name; });
    if (found == all.end()) {
      all.push_back(
          {entry->ifa_name, problemOf(entry->ifa_flags), (entry->ifa_flags & IFF_LOOPBACK) != 0, {}});
      found = all.end() - 1;
    }
    const std::string text = textOf(entry->ifa_addr);
    if (text.empty()) continue;
    const std::string prefix = "/" + std::to_string(prefixLength(entry->ifa_netmask));
    found->addresses.push_back(text.substr(0, text.find('%')) + prefix);
  }
  return all;
}

std::string whyUnreachable(const std::string& host) {
  constexpr int kAnyPort = 9;
  try {
    const control::AddressList addresses = control::resolve(host, kAnyPort);
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      // A datagram socket sends nothing when it connects: the kernel only chooses the route.
      const control::Socket socket(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0) continue;
      const NetworkInterface found = interfaceOf(control::localAddressOf(socket.get()));
      if (found.problem.empty()) return "";
      return "The network interface " + found.name + ", which leads there, " + found.problem;
    }
  } catch (const Error&) {
    return "";  // an unknown name is no problem of the interfaces
  }
  const std::string problems = everyProblem();
  return "No network interface of this machine leads there" + (problems.empty() ? "" : " (" + problems + ")");
}

}  // namespace hipress
