// SPDX-License-Identifier: Apache-2.0
#include "core/control/wire/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/control/wire/fork_guard.h"

namespace hipress::control {

namespace {

void setOption(int fd, int level, int option, int value) {
  // An option that cannot be set (on a launcher's socket of another family) costs speed, not
  // correctness.
  ::setsockopt(fd, level, option, &value, sizeof(value));
}

bool isListening(int fd) {
  int listening = 0;
  socklen_t size = sizeof(listening);
  return fd >= 0 && ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening != 0;
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = sizeof(sockaddr_storage);
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress localAddress(int fd) {
  SocketAddress address;
  ::getsockname(fd, address.get(), &address.size);
  return address;
}

Error cannotListen(const RendezvousOptions& options, int error) {
  const std::string port = std::to_string(options.port);
  if (error == EADDRINUSE) {
    return transportError(
        "port " + port + " on " + options.host +
        " is already in use: another job or program listens there. Stop it, or choose another with "
        "HIPRESS_RENDEZVOUS=host:port");
  }
  const char* hint = error == EADDRNOTAVAIL
                         ? ". It is not an address of this machine: rank 0 must run where it is"
                     : error == EACCES ? ". Ports below 1024 need privileges: choose a higher one"
                                       : "";
  return transportError("rank 0 cannot listen on " + options.host + " port " + port + ": " +
                        errorText(error) + hint);
}

}  // namespace

Socket::Socket(int fd) : fd_(fd) {
  if (fd_ >= 0) guardFromFork(fd_);
}

Socket::~Socket() {
  if (fd_ >= 0) closeGuarded(fd_);
}

WakeUp::WakeUp() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (fd_.get() < 0) throw transportError("no event descriptor: " + errorText(errno));
}

void WakeUp::signal() const {
  const uint64_t one = 1;
  // Fails only if the counter is at its maximum: then the sleeper is awake already.
  if (::write(fd_.get(), &one, sizeof(one)) < 0) return;
}

void WakeUp::clear() const {
  uint64_t count = 0;
  if (::read(fd_.get(), &count, sizeof(count)) < 0) return;  // nothing to clear
}

AddressList resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int result = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (result != 0) {
    throw transportError("the address of host '" + host + "' is not known: " +
                         (result == EAI_SYSTEM ? errorText(errno) : std::string(::gai_strerror(result))));
  }
  return AddressList(list);
}

Socket openListener(const RendezvousOptions& options) {
  if (isListening(options.listenFd)) {
    ::fcntl(options.listenFd, F_SETFD, FD_CLOEXEC);
    ::fcntl(options.listenFd, F_SETFL, ::fcntl(options.listenFd, F_GETFL) | O_NONBLOCK);
    return Socket(options.listenFd);
  }
  if (options.port < 0 || options.port > 65535) {
    throw invalidArgument("port " + std::to_string(options.port) + " is not between 0 and 65535");
  }
  const AddressList addresses = resolve(options.host, options.port);
  int error = 0;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    Socket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    // Without it a restarted job would wait until connections of the last job have timed out.
    setOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
    if (socket.get() >= 0 && ::bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
    if (error != EADDRINUSE) error = errno;  // of the errors of several addresses, this one says most
  }
  throw cannotListen(options, error);
}

void configureConnection(int fd) {
  setOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // On kernels that can (6.15), lost packets are sent again every second. Otherwise the pauses double, and a
  // link that was cut for some seconds seems cut for twice as long.
  constexpr int kRtoMaxMilliseconds = 44;  // TCP_RTO_MAX_MS, which older headers lack
  setOption(fd, IPPROTO_TCP, kRtoMaxMilliseconds, 1000);
  // With such pauses the kernel would give up after 14 s, even if other packets arrive on a busy link. The
  // heartbeat decides (heartbeat.h). The kernel gives up after the same time as with its own pauses.
  constexpr int kKernelsPatience = 924'600;
  setOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kKernelsPatience);
}

int portOf(int fd) {
  SocketAddress address = localAddress(fd);
  if (address.get()->sa_family == AF_INET)
    return ntohs(reinterpret_cast<sockaddr_in*>(address.get())->sin_port);
  if (address.get()->sa_family == AF_INET6)
    return ntohs(reinterpret_cast<sockaddr_in6*>(address.get())->sin6_port);
  return 0;
}

std::string localAddressOf(int fd) {
  SocketAddress address = localAddress(fd);
  char host[NI_MAXHOST] = "";
  ::getnameinfo(address.get(), address.size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

bool isConnectedToItself(int fd) {
  const SocketAddress local = localAddress(fd);
  SocketAddress peer;
  if (::getpeername(fd, peer.get(), &peer.size) != 0) return false;
  return local.size == peer.size && std::memcmp(&local.storage, &peer.storage, local.size) == 0;
}

std::string hostName() {
  char name[256] = "";
  if (::gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

std::string errorText(int error) {
  return std::error_code(error, std::generic_category()).message();
}

}  // namespace hipress::control
