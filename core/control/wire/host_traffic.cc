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
#include <memory>

namespace hipress::control {
namespace {

/// An IPv4 address is stored as its mapped IPv6 address, because sockets of both families may lead to one
/// host.
using HostAddress = std::array<unsigned char, 16>;

std::optional<HostAddress> peerHost(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* const address = reinterpret_cast<sockaddr*>(&storage);
  if (::getpeername(fd, address, &size) != 0) return std::nullopt;
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

std::optional<Milliseconds> silenceOf(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  return Milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv));
}

}  // namespace

std::optional<Milliseconds> silenceOfHost(int fd) {
  const std::optional<HostAddress> host = peerHost(fd);
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!host || !folder) return std::nullopt;
  std::optional<Milliseconds> shortest;
  while (const dirent* const entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const auto other = static_cast<int>(std::strtol(entry->d_name, &end, 10));
    // Another thread may close the descriptor meanwhile and open another one under its number. Then the
    // result is about the new one, whose peer this loop checks first.
    if (end == entry->d_name || peerHost(other) != host) continue;
    if (const auto silence = silenceOf(other)) shortest = std::min(shortest.value_or(*silence), *silence);
  }
  return shortest;
}

}  // namespace hipress::control
