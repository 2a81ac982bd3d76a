// SPDX-License-Identifier: Apache-2.0
//
// Sockets of the control connection: descriptors with an owner, addresses, options.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <utility>

#include "core/base/unique_fd.h"
#include "core/control/tcp/tcp_control.h"

namespace hipress::control {

/// Owns a socket. A forked child does not inherit it.
class Socket {
 public:
  explicit Socket(int fd = -1);
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Wakes a thread that sleeps in poll or epoll on fd().
class WakeUp {
 public:
  WakeUp();
  int fd() const { return fd_.get(); }
  void signal() const;
  void clear() const;

 private:
  UniqueFd fd_;
};

struct AddressDeleter {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressDeleter>;

/// Throws Transport if the name is unknown (now).
AddressList resolve(const std::string& host, int port);

/// Takes over options.listenFd if that socket listens. Otherwise binds options.host and port. Non-blocking.
Socket openListener(const RendezvousOptions& options);

/// Sets the options that both ends of every control connection have.
void configureConnection(int fd);

int portOf(int fd);

/// The numeric address of this end.
std::string localAddressOf(int fd);

/// TCP connects a socket to itself when no process listens on the port and the kernel chooses this port as
/// the source.
bool isConnectedToItself(int fd);

std::string hostName();

/// "Connection refused": strerror(), but thread-safe.
std::string errorText(int error);

}  // namespace hipress::control
