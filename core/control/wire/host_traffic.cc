// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/host_traffic.h"

#include <dirent.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

namespace hipress::control {
namespace {

/// An IPv4 address is stored as its mapped IPv6 address, because sockets of both families may lead to one
/// host.
using HostAddress = std::array<unsigned char, 16>;

using GetName = int (*)(int, sockaddr*, socklen_t*);

/// The host at one end of a connection: with getpeername the other end, with getsockname this end.
std::optional<HostAddress> hostOf(int fd, GetName getName) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (getName(fd, address, &size) != 0) return std::nullopt;
  HostAddress host{};
  if (address->sa_family == AF_INET6) {
    std::memcpy(host.data(), &reinterpret_cast<sockaddr_in6*>(address)->sin6_addr, host.size());
    return host;
  }
  if (address->sa_family != AF_INET) return std::nullopt;
  host[10] = host[11] = 0xff;
  std::memcpy(host.data() + 12, &reinterpret_cast<sockaddr_in*>(address)->sin_addr, 4);
  return host;
}

std::optional<tcp_info> infoOf(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return info;
}

/// Calls `visit(descriptor, host, info)` for each TCP connection of this process with the host at its other
/// end. Another thread may close a descriptor meanwhile and open another one under its number. Then the
/// visit is about the new one, or about none.
void visitConnections(const std::function<void(int, const HostAddress&, const tcp_info&)>& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return;
  while (const dirent* const entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const auto fd = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    if (end == entry->d_name) continue;
    const std::optional<HostAddress> host = hostOf(fd, ::getpeername);
    if (!host) continue;
    if (const auto info = infoOf(fd)) visit(fd, *host, *info);
  }
}

}  // namespace

std::optional<Milliseconds> silenceOfHost(int fd) {
  std::optional<Milliseconds> shortest;
  const std::optional<HostAddress> host = hostOf(fd, ::getpeername);
  visitConnections([&](int, const HostAddress& other, const tcp_info& info) {
    if (other != host) return;
    const Milliseconds silence(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
    shortest = std::min(shortest.value_or(silence), silence);
  });
  return shortest;
}

std::map<int, uint64_t> bytesOfOtherHosts(int fd) {
  std::map<int, uint64_t> bytes;
  const std::optional<HostAddress> host = hostOf(fd, ::getpeername);
  visitConnections([&](int other, const HostAddress& peer, const tcp_info& info) {
    if (peer != host && peer != hostOf(other, ::getsockname))
      bytes[other] = info.tcpi_bytes_received + info.tcpi_bytes_acked;
  });
  return bytes;
}

uint64_t acknowledgedByOtherHosts() {
  uint64_t bytes = 0;
  visitConnections([&](int fd, const HostAddress& peer, const tcp_info& info) {
    if (peer != hostOf(fd, ::getsockname)) bytes += info.tcpi_bytes_acked;
  });
  return bytes;
}

}  // namespace hipress::control
