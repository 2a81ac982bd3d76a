// SPDX-License-Identifier: Apache-2.0
#include "core/transport/ucx/trust/data_port.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace hipress {
namespace {

struct Connection {
  int fd = -1;
  std::string own;  // "address port"
  std::string other;
};

/// "address port" of one end; empty if the socket is not connected or is not an IP socket.
std::string endOf(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (name(fd, address, &size) != 0) return "";
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6) return "";
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "";
  }
  std::string text = host.data();
  // One end may show a connection as IPv4, the other as IPv4 in IPv6.
  constexpr std::string_view kMapped = "::ffff:";
  if (text.starts_with(kMapped)) text.erase(0, kMapped.size());
  text.resize(std::min(text.size(), text.find('%')));  // the zone is this host's name of an interface
  return text + " " + port.data();
}

std::string portOf(const std::string& end) {
  return end.substr(end.find(' ') + 1);
}

int optionOf(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

/// The current TCP sockets of this process.
std::vector<int> tcpSockets() {
  std::vector<int> sockets;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return sockets;
  while (const dirent* entry = ::readdir(folder.get())) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || *end != '\0') continue;
    const bool isTcp = optionOf(static_cast<int>(fd), SO_TYPE) == SOCK_STREAM &&
                       optionOf(static_cast<int>(fd), SO_PROTOCOL) == IPPROTO_TCP;
    if (isTcp) sockets.push_back(static_cast<int>(fd));
  }
  return sockets;
}

std::vector<Connection> tcpConnections() {
  std::vector<Connection> connections;
  for (const int fd : tcpSockets()) {
    Connection connection{fd, endOf(fd, ::getsockname), endOf(fd, ::getpeername)};
    if (!connection.own.empty() && !connection.other.empty()) connections.push_back(std::move(connection));
  }
  return connections;
}

/// Attaches a classic BPF program that keeps no byte of any packet. It filters the packets to the listening
/// socket only: existing connections have their own sockets. A process needs no privilege for it.
void dropAllPackets(int listener) {
  sock_filter keepNothing{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &keepNothing};
  if (::setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0) {
    throw transportError(
        std::string("the kernel does not let this process close UCX's port (SO_ATTACH_FILTER: ") +
        std::strerror(errno) + ")");
  }
}

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// UCX's thread accepts connections that were complete before the filter, at once.
void waitUntilTaken(int listener) {
  pollfd entry{listener, POLLIN, 0};
  for (int tries = 0; tries < 100 && ::poll(&entry, 1, 0) > 0; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Whether the text, an address of UCX, has the address and the port on which the socket listens. UCX never
/// listens on all addresses. Of a loopback address UCX gives the port only.
bool isPartOf(std::string_view text, int listener) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(listener, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return false;
  const auto has = [text](const auto& value) {
    return text.find(std::string_view(reinterpret_cast<const char*>(&value), sizeof value)) !=
           std::string_view::npos;
  };
  if (storage.ss_family == AF_INET) {
    const auto& own = reinterpret_cast<const sockaddr_in&>(storage);
    const bool isLoopback = (ntohl(own.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    return has(own.sin_port) && (isLoopback || has(own.sin_addr));
  }
  if (storage.ss_family != AF_INET6) return false;
  const auto& own = reinterpret_cast<const sockaddr_in6&>(storage);
  return has(own.sin6_port) && (IN6_IS_ADDR_LOOPBACK(&own.sin6_addr) || has(own.sin6_addr));
}

}  // namespace

std::vector<int> listeningSockets() {
  std::vector<int> sockets = tcpSockets();
  std::erase_if(sockets, [](int fd) { return optionOf(fd, SO_ACCEPTCONN) != 1; });
  return sockets;
}

DataPort::DataPort(const std::vector<int>& before, std::string_view ucx) : listeners_(listeningSockets()) {
  std::erase_if(listeners_,
                [&](int fd) { return std::ranges::find(before, fd) != before.end() || !isPartOf(ucx, fd); });
}

std::string DataPort::ports() const {
  std::string lines;
  for (const int listener : listeners_) lines += portOf(endOf(listener, ::getsockname)) + "\n";
  return lines;
}

std::vector<std::string> DataPort::connectionsTo(const std::vector<std::string>& ofAllRanks) const {
  std::map<std::string, std::vector<size_t>> ranks;  // by the number of a port
  for (size_t rank = 0; rank < ofAllRanks.size(); ++rank) {
    for (const std::string& port : linesOf(ofAllRanks[rank])) ranks[port].push_back(rank);
  }
  std::vector<std::string> lines(ofAllRanks.size());
  for (const Connection& each : tcpConnections()) {
    const auto found = ranks.find(portOf(each.other));
    if (found == ranks.end()) continue;
    for (const size_t rank : found->second) lines[rank] += each.own + "\n";
  }
  return lines;
}

size_t DataPort::close(const std::vector<std::string>& fromAllRanks) {
  for (const int listener : listeners_) dropAllPackets(listener);
  std::set<std::string> ports;
  for (const int listener : listeners_) {
    waitUntilTaken(listener);
    ports.insert(portOf(endOf(listener, ::getsockname)));
  }

  std::set<std::string> claimed;  // for connections to a port of this number: the ends of the ranks
  for (const std::string& lines : fromAllRanks) {
    for (std::string& line : linesOf(lines)) claimed.insert(std::move(line));
  }

  std::vector<Connection> accepted = tcpConnections();
  std::erase_if(accepted, [&](const Connection& each) { return !ports.contains(portOf(each.own)); });
  // Behind an address translation ranks do not know the addresses that other hosts see. No stranger has
  // connected as long as this rank has at most as many connections as the ranks have made.
  if (accepted.size() <= claimed.size()) return 0;
  size_t cut = 0;
  for (const Connection& each : accepted) {
    if (claimed.contains(each.other)) continue;
    ::shutdown(each.fd, SHUT_RDWR);  // UCX sees the end and closes its descriptor
    ++cut;
  }
  return cut;
}

uint64_t DataPort::packetsDropped() const {
  uint64_t dropped = 0;
  for (const int listener : listeners_) {
    std::array<uint32_t, SK_MEMINFO_VARS> counters{};
    socklen_t size = sizeof counters;
    if (::getsockopt(listener, SOL_SOCKET, SO_MEMINFO, counters.data(), &size) == 0) {
      dropped += counters[SK_MEMINFO_DROPS];
    }
  }
  return dropped;
}

}  // namespace hipress
